"""A job of the launcher sees, returns and leaves what it does with Hydra's own ``run_job``."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize
from hydra._internal.callbacks import Callbacks
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.core.utils import run_job as hydra_run_job
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from hydra_dask.compose import packed, unpacked
from hydra_dask.job import run_job, to_yaml

WORDS = (
    "+a=1",
    "+text='1.5'",
    "+long='" + "many words, and more of them, " * 6 + "'",
    "+unicode='größer'",
    "+nested={b: [1, null, {c: 2.5}], empty: {}, none: []}",
    "+refers=${a}",
    "+where=${hydra:runtime.output_dir}",
    "+hydra.job.env_set.FLAVOUR=sour",
)
CONTEXT = HydraContext(config_loader=None, callbacks=Callbacks())  # type: ignore[arg-type]


@pytest.fixture
def config(tmp_path: Path) -> Iterator[bytes]:
    with initialize(version_base="1.3", config_path=None):
        found = compose(overrides=list(WORDS), return_hydra_config=True)
        with read_write(found.hydra), open_dict(found.hydra):
            found.hydra.mode = RunMode.MULTIRUN
            found.hydra.job.num, found.hydra.job.id = 3, "app_3"
            found.hydra.sweep.dir, found.hydra.sweep.subdir = str(tmp_path / "all"), "${hydra.job.num}"
        yield packed(found)


def look(config: DictConfig) -> dict[str, Any]:
    hydra = HydraConfig.get()
    return {
        "config": OmegaConf.to_container(config, resolve=True),
        "keys": list(config),
        "hydra": OmegaConf.to_container(hydra, resolve=False),
        "name": hydra.job.name,
        "output": hydra.runtime.output_dir,
        "writable": not OmegaConf.is_readonly(hydra),
        "cwd": os.getcwd(),
        "flavour": os.environ.get("FLAVOUR"),
    }


def left(returned: JobReturn, folder: Path) -> tuple[Any, ...]:
    files = {path.name: path.read_text() for path in (folder / ".hydra").iterdir()}
    assert returned.cfg is not None
    assert returned.hydra_cfg is not None
    seen = [OmegaConf.to_container(each, resolve=False) for each in (returned.cfg, returned.hydra_cfg)]
    return returned.status, returned.return_value, returned.overrides, returned.working_dir, seen, files


@pytest.mark.parametrize("moves", [None, False, True])
def test_a_job_is_as_with_hydra(config: bytes, moves: bool | None, tmp_path: Path) -> None:
    whole = unpacked(config)
    with read_write(whole.hydra):
        whole.hydra.job.chdir = moves
    content, before, found = packed(whole), os.getcwd(), []
    for run in (
        lambda: hydra_run_job(look, unpacked(content), "hydra.sweep.dir", "hydra.sweep.subdir", CONTEXT),
        lambda: run_job(look, content, CONTEXT),
    ):
        HydraConfig.instance().cfg = None
        found.append(left(run(), tmp_path / "all/3"))
        assert HydraConfig.instance().cfg is None
        assert os.getcwd() == before
    assert found[0] == found[1]
    assert found[0][1]["flavour"] == "sour"
    assert found[0][1]["output"] == str(tmp_path / "all/3")


def test_what_a_job_raises_is_returned(config: bytes) -> None:
    def fail(_: DictConfig) -> None:
        raise ValueError("no such thing")

    returned = run_job(fail, config, CONTEXT)
    assert returned.status == JobStatus.FAILED
    with pytest.raises(ValueError, match="no such thing"):
        _ = returned.return_value


def test_yaml_is_that_of_omegaconf(config: bytes) -> None:
    whole = unpacked(config)
    assert to_yaml(whole) == OmegaConf.to_yaml(whole)
