"""Hydra's own tests of launchers, as its own plugins run them."""

from typing import Any

import pytest
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.test_utils.launcher_common_tests import BatchedSweeperTestSuite, IntegrationTestSuite, LauncherTestSuite
from hydra.test_utils.test_utils import chdir_plugin_root  # noqa: F401
from hydra.version import VersionBase
from packaging.version import Version

from hydra_plugins.dask_launcher.launcher import DaskLauncher

pytestmark = [
    pytest.mark.filterwarnings("default"),  # Hydra's suites run with an old version_base, which warns
    pytest.mark.usefixtures("in_empty_folder"),
]
WORKERS = "hydra.launcher.workers=1"


@pytest.fixture
def in_empty_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(VersionBase.instance(), "version_base", Version("1.1"))  # as long as no application has a say


def test_hydra_finds_the_launcher() -> None:
    assert DaskLauncher.__qualname__ in [found.__qualname__ for found in Plugins.instance().discover(Launcher)]


@pytest.mark.parametrize(("launcher_name", "overrides"), [("dask", [WORKERS])])
class TestLauncher(LauncherTestSuite):
    pass


@pytest.mark.parametrize(
    ("launcher_name", "overrides"), [("dask", [WORKERS, "hydra/sweeper=basic", "hydra.sweeper.max_batch_size=2"])]
)
class TestBatches(BatchedSweeperTestSuite):
    pass


@pytest.mark.parametrize(
    ("task_launcher_cfg", "extra_flags"),
    [({}, ["-m", "hydra/launcher=dask", WORKERS])],
)
class TestIntegration(IntegrationTestSuite):
    pass
