"""Imports go one way: from each layer to those before it, whether they stand at the top, in a function or in conf/."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("hydra_dask", "hydra_plugins", "dtoken")
# A layer may use all layers before it; packages of one layer know nothing of each other, except in the last.
LAYERS = (
    ("dtoken.errors", "dtoken.text", "dtoken.compiled", "hydra_dask"),
    ("dtoken.data", "dtoken.graph", "hydra_plugins"),
    ("dtoken.problem", "dtoken.schedule"),
    ("dtoken.theory",),
    ("dtoken.algorithms",),
    ("dtoken.engine",),
    ("dtoken.config",),
    ("dtoken.session",),
    ("dtoken.sweep",),
    ("dtoken.report",),
    ("dtoken.cli", "dtoken.api", "dtoken.testing", "dtoken.sklearn", "dtoken"),
)
NAME = re.compile(r"\b(?:dtoken|hydra_dask|hydra_plugins)(?:\.\w+)+")


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            parts = file.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


MODULES = modules()


def module_of(name: str) -> str | None:
    """The module that a dotted name lies in, or is."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or None


def imports(module: str, *, types: bool = True) -> Iterator[str]:
    """Everything that a module imports anywhere, as dotted names; those for type checkers only if asked for."""
    tree = ast.parse(MODULES[module].read_text())
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not types and id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def edges(*, types: bool = True) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        for name in imports(module, types=types):
            target = module_of(name)
            if target and target != module:
                found[module].add(target)
    return found


def layer(name: str) -> int:
    """The layer of a module: that of the longest name that it begins with."""
    found = [
        (len(package), number)
        for number, packages in enumerate(LAYERS)
        for package in packages
        if name == package or name.startswith(f"{package}.")
    ]
    assert found, f"{name} belongs to no layer"
    return max(found)[1]


def package(name: str) -> str:
    """The package of a layer that a module belongs to."""
    return max((p for packages in LAYERS for p in packages if name == p or name.startswith(f"{p}.")), key=len)


def test_imports_go_from_later_layers_to_earlier_ones() -> None:
    last, wrong = len(LAYERS) - 1, []
    for module, targets in edges().items():
        for target in targets:
            same = package(target) == package(module) or layer(target) == layer(module) == last
            if not (same or layer(target) < layer(module)):
                wrong.append(f"{module} imports {target}")
    assert not wrong, "\n".join(sorted(wrong))


def test_no_cycles() -> None:
    try:
        TopologicalSorter(edges(types=False)).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_private_modules_and_names_stay_in_their_package() -> None:
    wrong = []
    for module in MODULES:
        for name in imports(module):
            owner, private = _private(name)
            if private and module_of(name) and not f"{module}.".startswith(f"{owner}."):
                wrong.append(f"{module} imports {name}")
    assert not wrong, "\n".join(sorted(wrong))


def _private(name: str) -> tuple[str, bool]:
    """The package around the first private part of a dotted name, and whether there is one."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part.startswith("_") and not part.startswith("__"):
            return ".".join(parts[:place]), True
    return "", False


def test_what_configurations_name_exists() -> None:
    """Strings in conf/ are imports by the commands, which may use everything that is public."""
    named = {name for file in (ROOT / "conf").rglob("*.yaml") for name in NAME.findall(file.read_text())}
    assert named
    for name in named:
        target = module_of(name)
        assert target, name
        assert "_" not in [part[0] for part in name.split(".")], name


def test_few_modules_stand_alone() -> None:
    alone = [file.name for file in (ROOT / "dtoken").glob("[!_]*.py")]
    assert len(alone) <= 5, alone


def test_every_import_of_the_launcher_by_dtoken_is_public() -> None:
    """dtoken uses the package below the launcher; Hydra alone imports the plugin."""
    for module, targets in edges().items():
        if module.startswith("dtoken"):
            assert not any(target.startswith("hydra_plugins") for target in targets), module


def test_few_modules_stand_outside_of_packages() -> None:
    """What has no package has no layer that its folder names."""
    top = {path.stem for path in (ROOT / "dtoken").glob("*.py")}
    assert top == {"__init__", "__main__", "api", "compiled", "errors", "text"}
