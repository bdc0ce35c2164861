"""What the control group of this process tells: whether the system has killed processes of it for want of memory."""

import re
from pathlib import Path

MOUNTED = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def out_of_memory_kills(mounted: Path = MOUNTED, own: Path = OWN) -> int:
    """How many processes of our control group were killed because it had no memory left; 0 where that is not told."""
    try:
        groups = own.read_text()
    except OSError:
        return 0
    files = [mounted / path.lstrip("/") / "memory.events" for path in re.findall(r"^0::(.*)$", groups, re.MULTILINE)]
    files += [
        mounted / "memory" / path.lstrip("/") / "memory.oom_control"
        for path in re.findall(r"^\d+:(?:.*,)?memory(?:,.*)?:(.*)$", groups, re.MULTILINE)
    ]
    return sum(_kills(file) for file in files)


def _kills(file: Path) -> int:
    try:
        found = re.search(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0
