"""Many jobs by one submission: arrays of jobs, for batch systems that have them.

The elements of an array differ in one number, which the system puts into their environment: it ends the name of their
workers. Every element is a job of its own to everybody else: it is lost, replaced and cancelled alone.
"""

import asyncio
import re
from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True)
class Form:
    """How a batch system writes arrays.

    Parameters
    ----------
    directive
        Asks for ``{count}`` elements with the numbers from 1 on.
    variable
        Tells an element its number.
    element
        Names the element ``{number}`` of the array ``{job}`` to the system's commands; None: each has an id of its own,
        which the submission prints.
    unfit
        Directives that an array must not have.
    """

    directive: str
    variable: str
    element: str | None
    unfit: tuple[str, ...] = ()


class Array:
    """``count`` jobs, which are submitted together when the first of them is started."""

    def __init__(self, form: Form, job: type[Any], count: int, name: str) -> None:
        self._form, self._job, self._count, self._name = form, job, count, name
        self._ids: asyncio.Future[list[tuple[str, str]]] | None = None

    def specs(self, spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """What a cluster of Dask makes the jobs of, by their names."""
        numbers = range(1, self._count + 1)
        return {f"{self._name}.{number}": {**spec, "cls": partial(self._element, number)} for number in numbers}

    def _element(self, number: int, scheduler: Any, **options: Any) -> Any:
        """A job of dask-jobqueue that is an element."""
        ours = [line for line in options.get("job_extra_directives") or [] if line not in self._form.unfit]
        directives = [*ours, self._form.directive.format(count=self._count)]
        array = self

        class Element(self._job):  # type: ignore[name-defined,misc]
            async def start(self: Any) -> None:
                self.job_id, self.key = await array.submitted(self, number)
                self.status = type(self.status).running

        job: Any = Element(scheduler, **{**options, "job_extra_directives": directives})
        own, common = f"--name {job.name} ", f"--name {self._name}.${{{self._form.variable}}} "
        job._command_template = job._command_template.replace(own, common)
        return job

    async def submitted(self, job: Any, number: int) -> tuple[str, str]:
        """What an element is called in commands, and in lists, once all are submitted: by whoever comes first."""
        if self._ids is None:
            self._ids = asyncio.ensure_future(self._submit(job))
        return (await self._ids)[number - 1]

    async def _submit(self, job: Any) -> list[tuple[str, str]]:
        """Submit all."""
        with job.job_file() as script:
            printed = await job._submit_job(script)
        if self._form.element is None:
            ids = [found["job_id"] for found in re.finditer(job.job_id_regexp, printed)]
            if len(ids) != self._count:
                raise RuntimeError(f"{len(ids)} of {self._count} jobs of an array were submitted: {printed.strip()}")
            return [(each, each) for each in ids]
        array = job._job_id_from_submit_output(printed)
        numbers = range(1, self._count + 1)
        return [(self._form.element.format(job=array, number=number), f"{array}.{number}") for number in numbers]
