"""Identity, folders, manifest and lock of a sweep, without running anything."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hydra import initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.conf import HydraConf
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import setup_globals
from hydra.errors import ConfigCompositionException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf

from hydra_dask.cluster import CLUSTERS, Jobs, Scheduler
from hydra_dask.compose import Compositions
from hydra_dask.errors import SweepError
from hydra_dask.identity import give_number, identity
from hydra_dask.manifest import (
    DONE,
    Job,
    Manifest,
    driver_lives,
    only_driver,
    read_manifest,
    write_record,
)
from hydra_dask.options import cluster_of
from hydra_dask.plan import Plan, Planner, open_manifest
from hydra_dask.sweep import options_of
from tests.launcher.conftest import Sweeps

SUBDIR = "${hydra.job.num}"


def composed(task: dict[str, object], words: list[str], subdir: str = SUBDIR) -> DictConfig:
    """What Hydra composes, as far as it matters."""
    setup_globals()
    config = OmegaConf.create(task | {"hydra": OmegaConf.structured(HydraConf)})
    config.hydra.job.name = "app"
    config.hydra.sweep.subdir = subdir
    config.hydra.overrides.task = words
    return config


class Fixed:
    """Compositions of jobs ``a=1``, ``a=2``, ..."""

    def __init__(self, subdir: str = SUBDIR) -> None:
        self.subdir = subdir

    def borrow(self, words: list[str]) -> DictConfig:
        return composed({"a": words[0], "here": "${hydra:runtime.output_dir}"}, list(words), self.subdir)


def plan(folder: Path, values: str, *, resume: bool = True, subdir: str = SUBDIR, first: int = 0) -> Plan:
    manifest = open_manifest(folder, resume)
    batch = [[f"a={value}"] for value in values]
    found = Planner(manifest, "all", resume, []).plan(batch, first, Fixed(subdir))  # type: ignore[arg-type]
    for job in found.todo:
        (folder / job.folder).mkdir(parents=True, exist_ok=True)
        job.status = DONE
    manifest.save()
    return found


def test_identity_is_what_a_job_computes_and_nothing_else() -> None:
    task = {"a": 1, "b": "${a}", "where": "${hydra:runtime.output_dir}/x", "at": "${now:%S}", "how": {"threads": 1}}
    same = composed(dict(reversed(task.items())), ["other"])
    same.hydra.runtime.output_dir, same.hydra.sweep.dir, same.hydra.job.num = "/elsewhere", "/there", 17
    assert identity(composed(task, []), []) == identity(same, [])
    assert identity(composed(task, []), []) != identity(composed(task | {"a": 2}, []), [])
    other = composed(task | {"how": {"threads": 2}}, [])
    assert identity(composed(task, []), []) != identity(other, [])
    assert identity(composed(task, []), ["how.threads"]) == identity(other, ["how.threads"])
    assert identity(composed({"a": "${no.such.key}"}, []), [])  # a job that never looks at it is fine


def test_new_points_get_new_folders_and_known_ones_keep_theirs(tmp_path: Path) -> None:
    assert [job.folder for job in plan(tmp_path, "12").todo] == ["0", "1"]
    again = plan(tmp_path, "3214")
    assert [job.folder for job in again.jobs] == ["2", "1", "0", "3"]
    assert [job.folder for job in again.todo] == ["2", "3"]
    (tmp_path / "1").rmdir()  # by hand, to have it run again
    assert [job.folder for job in plan(tmp_path, "12").todo] == ["1"]


def test_what_somebody_else_left_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    assert [job.folder for job in plan(tmp_path, "12").todo] == ["1", "2"]
    assert [job.folder for job in plan(tmp_path, "34", subdir="mine").todo] == ["mine", "mine-1"]


def test_equal_points_of_one_sweep_are_different_jobs(tmp_path: Path) -> None:
    assert [job.folder for job in plan(tmp_path, "11").todo] == ["0", "1"]
    assert plan(tmp_path, "11").todo == []
    assert [job.folder for job in plan(tmp_path, "111").todo] == ["2"]


def test_without_resuming_everything_is_as_hydra_has_it(tmp_path: Path) -> None:
    plan(tmp_path, "12", resume=False)
    assert [job.folder for job in plan(tmp_path, "21", resume=False).todo] == ["0", "1"]
    assert [job.folder for job in plan(tmp_path, "3", resume=False, first=4).todo] == ["4"]


def test_a_record_is_newer_than_the_manifest(tmp_path: Path) -> None:
    jobs = [Job(id, index, str(index), []) for index, id in enumerate("abc")]
    Manifest(tmp_path, ["app"], "/", "then", jobs).save()
    (tmp_path / ".jobs").mkdir()
    for index, status in enumerate(["done", "failed"]):
        (tmp_path / str(index)).mkdir()
        write_record(tmp_path, index, {"id": "abc"[index], "status": status, "attempt": 1, "error": None})
    write_record(tmp_path, 2, {"id": "another", "status": "done", "attempt": 1})  # of another job
    assert [job.status for job in open_manifest(tmp_path, resume=True).jobs] == ["done", "failed", "waiting"]


def test_a_damaged_manifest_is_said(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    (tmp_path / "manifest.json").write_text('{"format": 1, ')
    with pytest.raises(ValueError, match=r"is damaged; delete it, or use another hydra.sweep.dir"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(ValueError, match=r"has format 2"):
        read_manifest(tmp_path)


def test_there_is_one_driver(tmp_path: Path) -> None:
    assert not driver_lives(tmp_path)
    with only_driver(tmp_path):
        assert driver_lives(tmp_path)
        with pytest.raises(ValueError, match=r"process \d+ on .* is running the sweep"), only_driver(tmp_path):
            pass
    assert not driver_lives(tmp_path)


def test_the_cluster_that_options_describe() -> None:
    address = cluster_of("tcp://host:8786", {"tls": False, "workers": 3})
    assert isinstance(address, Scheduler)
    assert address.address == "tcp://host:8786"
    slurm = cluster_of("slurm", {"kind": "slurm", "workers": 3, "memory": "2GB", "shared": "/nfs", "job_cpu": 2})
    assert isinstance(slurm, Jobs)
    assert (slurm.workers, slurm.memory, slurm.shared, slurm.options) == (3, "2GB", Path("/nfs"), {"job_cpu": 2})
    with pytest.raises(ValueError, match=r"hydra.launcher.cluster=slrum is not known; use one of local, slurm"):
        cluster_of("slrum", {})
    with pytest.raises(ValueError, match=r"queue means nothing to hydra.launcher.cluster=local"):
        cluster_of("local", {"queue": "short"})


def test_keys_of_a_batch_job_are_options_of_the_launcher() -> None:
    given = {
        "cluster": "slurm",
        "workers": 3,
        "memory_limit": "2GB",
        "cores": 4,
        "walltime": "02:00:00",
        "queue": "short",
    }
    cluster = options_of(given | {"account": "me", "options": {"queue": "long", "interface": "ib0"}}).cluster
    assert isinstance(cluster, Jobs)
    assert (cluster.workers, cluster.memory, cluster.cores, cluster.walltime) == (3, "2GB", 4, "02:00:00")
    assert (cluster.queue, cluster.account, cluster.interface) == ("short", "me", "ib0")
    with pytest.raises(SweepError, match=r"cluster.walltime=90 must be hours:minutes:seconds, as 01:30:00"):
        options_of({"cluster": "slurm", "walltime": 90})
    assert options_of({"cluster": "slurm", "cores": None, "queue": None}).cluster == CLUSTERS["slurm"]()


FILES = {
    "config.yaml": "defaults: [method: slow, place: here, _self_]\nseed: 0\ntwice: ${method.tokens}",
    "method/slow.yaml": "name: slow\ntokens: 1",
    "method/fast.yaml": "defaults: [slow]\nname: fast",
    "place/here.yaml": "# @package _global_\nnodes: 3",
    "place/there.yaml": "# @package _global_\ndefaults: [override /method: fast]\nnodes: 4",
    "more/place/there.yaml": "# @package _global_\nnodes: 5",
    "study/long.yaml": "# @package _global_\nrecord:\n  what: [1, 2]",
    "curve/coarse.yaml": "# @package _global_\nrecord:\n  every: 10",
    "curve/fine.yaml": "# @package _global_\nname: fine",
}


@pytest.fixture
def loader(tmp_path: Path) -> Iterator[ConfigLoaderImpl]:
    """Hydra's loader of some configuration files."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        found = GlobalHydra.instance().config_loader()
        assert isinstance(found, ConfigLoaderImpl)
        yield found


def test_jobs_are_composed_as_hydra_composes_them(loader: ConfigLoaderImpl, tmp_path: Path) -> None:
    master = loader.load_configuration("config", ["hydra.sweep.dir=all"], RunMode.MULTIRUN)
    jobs = [
        ["method=slow", "seed=1"],
        ["method=slow", "seed=2", "method.tokens=3"],
        ["method=fast", "+mine.own=[1,{a: 2}]", "~seed"],
        ["method=fast", "place=there", "hydra.job.chdir=true"],
        ["seed=3", "place=there", "method.name='a, b'", "+note=${seed}"],
        ["place=there"],
        ["place=there", f"hydra.searchpath=[file://{tmp_path}/more]"],
        ["+method@other=fast", "hydra/job_logging=disabled"],
        ["+study=long", "+curve=coarse"],  # the curve adds to a section that the study began
        ["+study=long", "+curve=fine"],
        ["+curve=coarse", "+study=long"],
        ["+curve=fine", "+study=long"],
    ]
    expected = [loader.load_sweep_config(master, words) for words in jobs]
    compositions = Compositions(HydraContext(loader, Callbacks()), master)
    untouched = loader.repository
    for _ in range(2):  # the second time from memory
        for words, config in zip(jobs, expected, strict=True):
            found = compositions.compose(words)
            assert found == config
            assert OmegaConf.to_yaml(found) == OmegaConf.to_yaml(config)
            assert OmegaConf.is_struct(found)
            found.method.tokens = 7  # must not show in the next one
    assert loader.repository is untouched
    assert "_compose_config_from_defaults_list" not in vars(loader)


def test_borrowed_configurations_are_those_of_their_jobs(loader: ConfigLoaderImpl) -> None:
    master = loader.load_configuration("config", ["hydra.sweep.dir=all"], RunMode.MULTIRUN)
    compositions = Compositions(HydraContext(loader, Callbacks()), master)
    one = [
        ["method=slow", f"seed={seed}", f"method.tokens={tokens}"] for seed in (1, 2) for tokens in (3, "many", "null")
    ]
    other = [["seed=${nodes}", "place=there", "seed=5"], ["seed=4", "place=there", "seed=${nodes}"], ["++new=1"]]
    more = [
        ["+mine=1"],
        ["+mine=2"],
        ["method={name: x}"],
        ["method={tokens: 2}"],
        ["++new=[1,2]"],
        ["++new=2"],
        ["~seed"],
    ]
    seen = set()
    for number, words in enumerate([*one, *other, *more, *reversed(one), *other]):
        found, expected = compositions.borrow(words), loader.load_sweep_config(master, words)
        for config in (found, expected):
            give_number(config, number, "all")
        assert OmegaConf.to_yaml(found) == OmegaConf.to_yaml(expected)
        assert found == expected
        give_number(found, number, "all", "a folder of its own")  # must not show in the next one
        seen.add(id(found))
    assert len(seen) < len(one) + len(other) + len(more)  # they are lent again and again


def test_only_so_many_configurations_are_kept(loader: ConfigLoaderImpl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hydra_dask.compose.MOST_LENT", 2)
    master = loader.load_configuration("config", [], RunMode.MULTIRUN)
    compositions = Compositions(HydraContext(loader, Callbacks()), master)
    kinds = [["seed=1"], ["nodes=1"], ["method=fast"]]
    first, second, third = (compositions.borrow(words) for words in kinds)
    assert compositions.borrow(kinds[2]) is third
    assert compositions.borrow(kinds[1]) is second
    assert compositions.borrow(kinds[0]) is not first


def test_a_wrong_job_is_refused_in_the_words_of_hydra(loader: ConfigLoaderImpl) -> None:
    master = loader.load_configuration("config", [], RunMode.MULTIRUN)
    compositions = Compositions(HydraContext(loader, Callbacks()), master)
    for words in (["method=none"], ["seeds=1"], ["+seed=1"], ["seed=1,2"], ["method={name: x}", "method.no=1"]):
        with pytest.raises(ConfigCompositionException) as plain:
            loader.load_sweep_config(master, words)
        for way in (compositions.compose, compositions.borrow):
            with pytest.raises(ConfigCompositionException) as found:
                way(words)
            assert str(found.value) == str(plain.value)


def test_the_application_sees_each_job_that_is_to_run_once(tmp_path: Path) -> None:
    plan(tmp_path, "1")
    seen: list[str] = []
    watched: list[str] = []

    def check(config: DictConfig) -> bool:
        seen.append(config.a)
        if config.a == "a=4":
            raise ValueError("no four")
        return config.a == "a=2"

    def watch(batch: Sequence[Sequence[str]]) -> Iterator[Sequence[str]]:
        for words in batch:
            yield words
            watched.append(words[0])

    batch = [[f"a={value}"] for value in "12345"]
    planner = Planner(open_manifest(tmp_path, resume=True), "all", True, [])
    found = planner.plan(batch, 0, Fixed(), check, watch)  # type: ignore[arg-type]
    assert seen == ["a=2", "a=3", "a=4", "a=5"]
    assert watched == ["a=1", "a=2", "a=3", "a=4", "a=5"]
    assert found.alike == {True: [1], False: [2, 4]}
    assert [(job.index, str(error)) for job, error in found.wrong] == [(3, "no four")]


def test_a_refused_sweep_leaves_the_records_of_the_one_before(sweeps: Sweeps) -> None:
    assert sweeps.run("+what=good").status == 0
    before = (sweeps.folder / "all/.jobs/0.json").read_text()
    ended = sweeps.run("+what=good", "nothing=1")
    assert ended.status != 0
    assert "Could not override 'nothing'" in ended.err
    assert (sweeps.folder / "all/.jobs/0.json").read_text() == before
