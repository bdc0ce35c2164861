"""Walks by name: tables of `dtoken.graph.walks`, and laws of this package."""

from dataclasses import is_dataclass
from typing import Any

from dtoken.errors import InputError
from dtoken.graph.topology import Topology
from dtoken.graph.walks import KINDS, Walk, by_law, walk
from dtoken.schedule.walks.contract import OwnWalk
from dtoken.schedule.walks.levy import Levy
from dtoken.schedule.walks.rounds import Rounds
from dtoken.schedule.walks.self_repelling import SelfRepelling
from dtoken.schedule.walks.weighted import Weighted

LAWS: dict[str, type[OwnWalk]] = {"self_repelling": SelfRepelling, "levy": Levy, "weighted": Weighted, "rounds": Rounds}
NAMES = (*KINDS, *LAWS)


def check_law(kind: Any, name: str) -> type[OwnWalk]:
    """Refuse a user's class that is no walk."""
    if not (isinstance(kind, type) and issubclass(kind, OwnWalk) and is_dataclass(kind)):
        raise InputError(
            f"graph.walk={name} is not a dataclass that inherits from dtoken.schedule.walks.contract.OwnWalk; "
            "see docs/add-a-walk.md"
        )
    return kind


def make_walk(topology: Topology, name: str, stay: float | None, law: OwnWalk | None) -> Walk:
    """The walk of a run."""
    if law is None:
        return walk(topology, name, stay)
    if stay is not None:
        raise InputError(f"graph.stay={stay:g} belongs to graph.walk=lazy, not to {name}; use that, or graph.stay=null")
    return by_law(topology, name, law)
