"""The options of ``hydra/sweeper=dask_optuna``."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class DaskOptunaSweeperConf:
    """What ``hydra.sweeper.*`` understands."""

    _target_: str = "hydra_plugins.dask_optuna_sweeper.sweeper.DaskOptunaSweeper"

    # Trials that are to be done or pruned in the end, those of before included
    n_trials: int = 20

    # minimize or maximize what a job returns
    direction: str = "minimize"

    # Where Optuna keeps its study, as sqlite:///study.db; null: in optuna.log in the sweep directory
    storage: str | None = None

    # Name of the study in its storage
    study_name: str = "sweep"

    # Any sampler of Optuna. A constant liar knows of the trials that are still running
    sampler: Any = field(
        default_factory=lambda: {"_target_": "optuna.samplers.TPESampler", "seed": 0, "constant_liar": True}
    )

    # Any pruner of Optuna, as {_target_: optuna.pruners.MedianPruner}; null: every trial runs to its end
    pruner: Any = None

    # What is searched, beside the words of the command line: KEY: interval(a, b), range(a, b), or values with commas
    params: dict[str, str] = field(default_factory=dict)
