"""networkx, loaded when a graph is first made with it: runs on a complete graph need none of the memory it takes."""

from importlib import import_module
from typing import Any


class _Networkx:
    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("networkx"), name)


nx = _Networkx()
