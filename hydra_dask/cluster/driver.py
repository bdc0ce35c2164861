"""The driver of a sweep as a job of the batch system itself: submit and leave."""

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra_dask.cluster import jobqueue
from hydra_dask.cluster.jobs import Jobs
from hydra_dask.cluster.keeper import refusal


@dataclass(frozen=True)
class Driver:
    """A command that is to run as a job.

    Parameters
    ----------
    command
        The words of the command.
    cwd
        Where it runs.
    log
        File to which all that it prints is appended.
    logs
        Folder for what the batch system itself has to say.
    name
        Of the job.
    walltime, memory
        Of the job, as those of workers.
    """

    command: Sequence[str]
    cwd: Path
    log: Path
    logs: Path
    name: str
    walltime: str
    memory: str

    def line(self) -> str:
        """The command for a shell; ``exec``: signals reach the driver."""
        where, log = shlex.quote(str(self.cwd)), shlex.quote(str(self.log))
        return f"cd {where} && exec {shlex.join(self.command)} >> {log} 2>&1 < /dev/null"

    def script(self, cluster: Jobs) -> str:
        """What is submitted."""
        script: str = self._job(cluster).job_script()
        return script

    def submit(self, cluster: Jobs) -> str:
        """Submit the driver, with queue, account and options of ``cluster``, and return the job's id.

        Raises
        ------
        ValueError
            If the batch system refuses it.
        """
        job = self._job(cluster)
        try:
            asyncio.run(job.start())
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{cluster.kind} refuses the job: {refusal(error)}") from error
        return str(job.job_id)

    def _job(self, cluster: Jobs) -> Any:
        """A job of dask-jobqueue, whose command is not that of a worker."""
        options = dict(cluster.options or {})
        options.pop("worker_extra_args", None)
        more = options.pop("job_extra_directives", None) or cluster.site_default("job-extra-directives")
        plain = replace(
            cluster,
            workers=1,
            jobs=None,
            nodes=1,
            array=False,
            cores=1,
            memory=self.memory,
            tls=False,
            logs=self.logs,
            options=options,
        )
        if cluster.names.get("walltime") != "":
            plain = replace(plain, walltime=self.walltime)
        arguments = plain.job_arguments(None) | {
            "job_name": self.name,
            "memory": self.memory,  # there are no workers in it to be watched
            "job_extra_directives": plain.all_directives(cluster.driver_directives, more),
        }
        arguments.pop("job_mem", None)
        job: Any = getattr(jobqueue.load(), cluster.system).job_cls(None, self.name, **arguments)
        prologue = options.get("job_script_prologue") or []
        # HTCondor has no script: there the lines before the command belong to it.
        job._command_template = "; ".join([*prologue, self.line()]) if cluster.kind == "htcondor" else self.line()
        return job
