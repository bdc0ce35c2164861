"""What batch systems say of themselves, where a site decides what things are called there."""

import re
import shutil
import subprocess

ONE_MACHINE = "$pe_slots"  # the rule of a parallel environment of Grid Engine whose slots are all on one machine
CONSUMED = ("h_vmem", "mem_free", "virtual_free")  # names of memory in Grid Engine, if jobs use it up
OAR_MEMORY = ("memcore", "mem_core", "memnode", "mem_node")  # names of memory in OAR, in MiB


def said(*command: str) -> str | None:
    """What a command prints; None: it is not there, or fails."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def is_torque() -> bool:
    """Whether ``qsub`` is Torque's: PBS says ``pbs_version = ...``, Torque ``Version: ...`` on either output."""
    if shutil.which("qsub") is None:
        return False
    done = subprocess.run(["qsub", "--version"], capture_output=True, text=True, check=False)
    return re.match(r"\s*Version:", done.stdout + done.stderr) is not None


def parallel_environment() -> str | None:
    """The first parallel environment of Grid Engine that has all slots on one machine."""
    for name in (said("qconf", "-spl") or "").split():
        rule = re.search(r"^allocation_rule\s+(\S+)", said("qconf", "-sp", name) or "", re.MULTILINE)
        if rule is not None and rule[1] == ONE_MACHINE:
            return name
    return None


def memory_of_grid_engine() -> str:
    """What a job of Grid Engine asks for when it asks for memory: what jobs use up, else what is free."""
    kinds = consumables()
    return next((name for name in CONSUMED if kinds.get(name, "NO") != "NO"), "mem_free")


def consumables() -> dict[str, str]:
    """Whether jobs of Grid Engine use up what they ask for: NO, YES (for each slot) or JOB, by name."""
    table = said("qconf", "-sc") or ""
    return {row[0]: row[5] for line in table.splitlines() if len(row := line.split()) == 8 and line[0] != "#"}


def memory_of_oar() -> str | None:
    """The property of OAR's resources that is their memory; None: there is none with a usual name."""
    found = set(re.findall(r"\b(\w+)=", said("oarnodes") or ""))
    return next((name for name in OAR_MEMORY if name in found), None)
