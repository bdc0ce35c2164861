"""Clusters as settings: what is refused, and what is kept out of a run's identity."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from dtoken.config.settings import cluster_values, make_settings
from dtoken.config.values import defaults
from dtoken.engine.dask.connect import connect
from dtoken.errors import InputError
from hydra_dask.cluster import CLUSTERS

CONF = Path(__file__).parents[2] / "conf" / "cluster"


@pytest.mark.parametrize("kind", CLUSTERS)
def test_every_cluster_has_a_commented_file_whose_keys_exist(kind: str) -> None:
    text = (CONF / f"{kind}.yaml").read_text()
    keys = yaml.safe_load(text)
    assert keys.pop("kind") == kind
    assert set(keys) <= set(defaults(CLUSTERS[kind]))
    assert f"cluster={kind}" in text


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"kind": "local", "workers": 0}, "cluster.workers=0 must be at least 1"),
        ({"kind": "local", "worker": 2}, "Did you mean cluster.workers"),
        ({"kind": "slurmm"}, "did you mean slurm"),
        ({"kind": "address"}, "needs cluster.address"),
        ({"kind": "address", "address": "tcp://a:1"}, "is not encrypted"),
        ({"kind": "address", "address": "tls://a:1"}, "needs cluster.ca"),
        ({"kind": "htcondor", "queue": "short"}, "means nothing to htcondor"),
        ({"kind": "slurm", "options": 3}, "keys and values"),
        (
            {"kind": "slurm", "options": {"job_extra_directives": "--nice"}},
            "job_extra_directives=--nice must be a list",
        ),
        ({"kind": "slurm", "jobs": 0}, "cluster.jobs=0 must be at least 1"),
        ({"kind": "slurm", "walltime": "90"}, "cluster.walltime=90 must be hours:minutes:seconds"),
        ({"kind": "slurm", "options": {"nanny": True}}, "cluster.options.nanny is fixed"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(cluster: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_settings(engine="dask", cluster=cluster)


def test_engine_and_cluster_do_not_change_the_identity_of_a_run() -> None:
    one = make_settings()
    other = make_settings(engine={"kind": "dask", "attempts": 3}, cluster={"kind": "slurm", "workers": 9})
    assert one.identity() == other.identity()
    assert other.as_config()["cluster"]["workers"] == 9


def test_tls_is_on_unless_it_is_switched_off() -> None:
    assert all(defaults(kind)["tls"] for kind in CLUSTERS.values())


def test_a_missing_batch_system_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(InputError, match="needs the command sbatch"), connect(CLUSTERS["slurm"]()):
        pass


def test_options_are_not_written_into_summaries() -> None:
    assert "options" not in cluster_values(CLUSTERS["slurm"](options={"job_script_prologue": ["export PASSWORD=x"]}))
