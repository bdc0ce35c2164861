"""``hydra/sweeper=dask_optuna``: discovery imports this module into every Hydra application, so it is small."""

from hydra.core.config_store import ConfigStore

from hydra_dask.optuna_options import DaskOptunaSweeperConf

ConfigStore.instance().store(
    group="hydra/sweeper", name="dask_optuna", node=DaskOptunaSweeperConf, provider="dask_optuna_sweeper"
)
