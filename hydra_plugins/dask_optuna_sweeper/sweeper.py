"""The sweeper, as thin as it can be: what it needs is loaded when it is used."""

from pathlib import Path
from typing import Any

from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class DaskOptunaSweeper(Sweeper):
    """Searches with Optuna on the workers of ``hydra/launcher=dask``; ``DaskOptunaSweeperConf`` has the options."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._sweep: Any = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take over what Hydra gives to every sweeper, and the options of the launcher."""
        from hydra_dask.errors import SweepError
        from hydra_dask.sweep import Sweep, options_of

        launcher: Any = OmegaConf.to_container(config.hydra.launcher, resolve=True)
        if not launcher.pop("_target_").endswith(".DaskLauncher"):
            raise SweepError("hydra/sweeper=dask_optuna needs hydra/launcher=dask; give that, too")
        self._sweep = Sweep(options_of(launcher), hydra_context, task_function, config)
        self.config = config

    def sweep(self, arguments: list[str]) -> Any:
        """Search; the best trial."""
        from hydra_dask.optuna_search import Search, best_of, open_study, space, write_best
        from hydra_dask.screen import say

        assert self.config is not None
        options, folder = self._options, Path(str(self.config.hydra.sweep.dir))
        searched, fixed = space(arguments, options["params"])
        study = open_study(
            options["storage"],
            options["study_name"],
            options["direction"],
            options["sampler"],
            options["pruner"],
            folder,
        )
        self._sweep.search(Search(study, searched, fixed, options["n_trials"], folder.absolute()))
        best = best_of(study)
        if best is not None:
            write_best(best, folder)
            values = " ".join(f"{key}={value}" for key, value in best.params.items())
            say(f"{best.value:g} with {values}", "best")
        return best
