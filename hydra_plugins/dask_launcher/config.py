"""``hydra/launcher=dask`` for Hydra: discovery imports this module into every Hydra application, so it is small."""

from hydra.core.config_store import ConfigStore

from hydra_dask.launcher_options import DaskLauncherConf

ConfigStore.instance().store(group="hydra/launcher", name="dask", node=DaskLauncherConf, provider="dask_launcher")
