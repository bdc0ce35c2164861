"""The launcher, as thin as it can be: what it needs is loaded when jobs are launched."""

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class DaskLauncher(Launcher):
    """Runs the jobs of a multirun on the workers of a Dask cluster; ``DaskLauncherConf`` has the options."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._sweep: Any = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take over what Hydra gives to every launcher."""
        from hydra_dask.sweep import Sweep, options_of

        self._sweep = Sweep(options_of(self._options), hydra_context, task_function, config)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a batch of jobs."""
        returned: Sequence[JobReturn] = self._sweep.launch([list(words) for words in job_overrides], initial_job_idx)
        return returned
