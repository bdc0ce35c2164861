"""Settings: the same from the command line and from Python, and refused in one sentence where they make no sense."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from dtoken.algorithms.registry import METHODS, method_class
from dtoken.algorithms.tvr import TVR
from dtoken.cli.hydra_app import application, parse
from dtoken.config.hydra import settings_of
from dtoken.config.sections import SOURCES
from dtoken.config.settings import Settings, make_settings
from dtoken.config.source import config_folder
from dtoken.data.partition import Partition
from dtoken.data.synthetic import Synthetic
from dtoken.engine.loop.settings import Stop
from dtoken.errors import InputError
from dtoken.graph import REGISTRY
from dtoken.problem.losses import NAMES


def from_command(*words: str) -> Settings:
    with application(parse(words), ()) as app:
        return settings_of(app.compose())


def test_plain_command_has_the_defaults_of_the_dataclasses() -> None:
    settings = from_command()
    assert settings == make_settings()
    assert (settings.method, settings.source, settings.stop) == (TVR(), Synthetic(), Stop())
    assert settings.partition == Partition(nodes=8)


def test_command_and_python_agree() -> None:
    words = ("data=synthetic data.rows=60 nodes=6 graph=grid graph.shape=[2,3] graph.walk=lazy graph.stay=1/3 "
             "algorithm=token algorithm.tokens=2 stop.jumps=40 record.accuracies=[0.1] time.rule=token_clock "
             "problem.sigma=0.5 seed=3 engine.threads=2 checkpoint.every=null partition.kind=shuffled")  # fmt: skip
    expected = make_settings(
        data=Synthetic(rows=60),
        nodes=6,
        partition={"kind": "shuffled"},
        problem={"sigma": 0.5},
        graph={"kind": "grid", "shape": [2, 3], "walk": "lazy", "stay": 1 / 3},
        algorithm={"_target_": "token", "tokens": 2},
        engine={"threads": 2},
        seed=3,
        stop={"jumps": 40},
        record={"accuracies": [0.1]},
        time={"rule": "token_clock"},
        checkpoint={"every": None},
    )
    found = from_command(*words.split())
    assert found == expected
    assert found.as_config() == expected.as_config()


def test_every_option_has_a_file_and_every_file_an_option() -> None:
    groups = {"algorithm": METHODS, "data": SOURCES, "graph": REGISTRY, "problem": NAMES}
    for group, names in groups.items():
        assert {file.stem for file in (config_folder() / group).glob("*.yaml")} == set(names), group


@pytest.mark.parametrize("name", list(METHODS))
def test_files_of_methods_name_their_class(name: str) -> None:
    assert type(from_command(f"algorithm={name}").method) is method_class(name)


@pytest.mark.parametrize("kind", [kind for kind in REGISTRY if kind != "edge_list"])
def test_files_of_graphs_name_their_kind(kind: str) -> None:
    assert from_command(f"graph={kind}").graph.kind == kind


def test_composed_configuration_shows_all_keys() -> None:
    with application(parse(["algorithm=token", "data=rcv1_like"]), ()) as app:
        config = app.compose()
    assert config.algorithm.factor == 0.02
    assert config.data.nonzeros == 73
    assert config.stop.passes == 50.0
    assert OmegaConf.select(config, "algorithm.sampling") is None


OWN = """
from dataclasses import dataclass
from dtoken.algorithms.tvr import TVR

@dataclass(frozen=True)
class Mine(TVR):
    tokens: int = 3
    strength: float = 1.0
"""


@pytest.fixture
def own_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_method_of_mine.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return "own_method_of_mine.Mine"


def test_own_method_has_its_own_keys_and_defaults(own_method: str) -> None:
    method: Any = from_command(f"algorithm._target_={own_method}", "+algorithm.strength=2").method
    assert (type(method).__name__, method.tokens, method.strength) == ("Mine", 3, 2.0)


def test_own_method_takes_keys_without_plus(own_method: str) -> None:
    method: Any = from_command(f"algorithm._target_={own_method}", "algorithm.strength=2", "algorithm.tokens=1").method
    assert (method.tokens, method.strength) == (1, 2.0)


def test_own_method_refuses_keys_of_others(own_method: str) -> None:
    with pytest.raises(InputError, match=r"algorithm.strenght is not a key of Mine. Did you mean algorithm.strength"):
        from_command(f"algorithm._target_={own_method}", "+algorithm.strenght=2")


def test_class_that_is_no_method_is_refused() -> None:
    with pytest.raises(InputError, match=r"algorithm._target_=pathlib.Path is not a dataclass"):
        make_settings(algorithm="pathlib.Path")
    with pytest.raises(InputError, match=r"is not a method: it lacks name, draws_samples"):
        make_settings(algorithm="dtoken.engine.loop.run.Stop")


def test_identity_leaves_out_what_does_not_change_the_result() -> None:
    some = make_settings(stop={"passes": 3}, engine={"threads": 1}, record={"accuracies": [0.5]})
    other = make_settings(stop={"jumps": 3}, engine={"threads": 4}, checkpoint={"every": None})
    assert some.identity() == other.identity()
    assert some.identity() != make_settings(seed=1).identity()
    assert some.identity() != make_settings(record={"every_passes": 2.0}).identity()


@pytest.mark.parametrize("curve", sorted(path.stem for path in (config_folder() / "curve").glob("*.yaml")))
def test_curves_of_the_papers_figure_are_the_same_before_and_after_the_experiment(curve: str) -> None:
    """A sweep that the experiment defines puts the curve first, a command that names the curve may put it last."""
    words = (f"+curve={curve}", "+experiment=paper")
    assert from_command(*words) == from_command(*reversed(words))
    assert from_command(*words).partition.sizes == "equal"  # the paper's nodes have equally many rows
