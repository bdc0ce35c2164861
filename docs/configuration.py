"""Write docs/configuration.md, the reference of all keys, from the dataclasses that define them.

python docs/configuration.py          write it
python docs/configuration.py --check  say whether it is up to date
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from docstring_parser import DocstringStyle, parse
from omegaconf import OmegaConf

from dtoken.algorithms.registry import METHODS, method_class
from dtoken.config.sections import DATA_KEYS, ENGINES, SECTIONS, SOURCE_HIDDEN, SOURCES, Problem, source_class
from dtoken.config.source import config_folder
from dtoken.config.values import NOT_GIVEN, defaults, plain
from dtoken.data.partition import Partition
from dtoken.graph.topologies import REGISTRY, parameters
from dtoken.schedule.walks.registry import LAWS
from hydra_dask.cluster import CLUSTERS

PAGE = Path(__file__).with_suffix(".md")
HEAD = """\
# Configuration reference

All keys with their defaults, made from the code by `python docs/configuration.py`. Set them on the command line as
`KEY=VALUE`, choose an option of a group as `GROUP=OPTION`; `dtoken [KEY=VALUE ...] --cfg job` prints a whole
configuration without running it. A key marked **required** has no default.

| key | default | meaning |
|---|---|---|
| `nodes` | {nodes} | number of nodes n |
| `seed` | {seed} | seed of the schedule; `data.seed`, `partition.seed` and `graph.seed` are their own |
| `objective` | {objective} | number that a run of a sweep returns: this, or a cost as `jumps to 1e-6` |
"""
EXPERIMENTS = """
## Experiments

Ready sweeps, chosen with `dtoken -m +experiment=NAME`; what they set can be overridden.

| name | what it is |
|---|---|
"""


def described(kind: Any) -> dict[str, str]:
    """What the docstring of a dataclass or function says about each of its parameters."""
    found: dict[str, str] = {}
    for part in reversed(getattr(kind, "__mro__", [kind])):
        for entry in parse(part.__doc__ or "", style=DocstringStyle.NUMPYDOC).params:
            for name in entry.arg_name.split(","):
                found[name.strip()] = " ".join((entry.description or "").split())
    return found


def summary(kind: Any) -> str:
    """What a docstring says before it comes to parameters."""
    parts = parse(kind.__doc__ or "", style=DocstringStyle.NUMPYDOC)
    texts = (parts.short_description, parts.long_description)
    return " ".join(" ".join(text.split()) for text in texts if text).replace("``", "`")


def table(prefix: str, values: dict[str, Any], meanings: dict[str, str]) -> Iterator[str]:
    """A table of keys."""
    if not values:
        yield "No keys of its own.\n"
        return
    yield "| key | default | meaning |\n|---|---|---|"
    for key, value in values.items():
        shown = "**required**" if value in (NOT_GIVEN, ...) else f"`{_yaml(value)}`"
        meaning = meanings.get(key, "").replace("|", "\\|").replace("``", "`")
        yield f"| `{prefix}.{key}` | {shown} | {meaning} |"
    yield ""


def _yaml(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(plain(value)) if not isinstance(value, str) else value


def group(title: str, prefix: str, options: Iterable[tuple[str, Any, dict[str, Any], dict[str, str]]]) -> Iterator[str]:
    """A section with one part per option of a group."""
    yield f"\n## {title}\n"
    for name, kind, values, meanings in options:
        yield f"### `{prefix}={name}`\n\n{summary(kind)}\n"
        yield from table(prefix, values, meanings)


def page() -> str:
    """The whole page."""
    root = OmegaConf.load(config_folder() / "config.yaml")
    lines = [HEAD.format(nodes=f"`{root.nodes}`", seed=f"`{root.seed}`", objective=f"`{root.objective}`")]
    common = {
        "labels": "How two labels become -1 and +1.",
        "store": "Folder of the stores, or the URL of one; null: a cache of the user.",
        "scratch": "Folder in which one of your own is made for what is fetched of a remote store; null: temporary.",
        "test": "Rows to test on at record points: a file, or a share of the rows, which is not trained on then.",
        "test_seed": "Which rows such a share is.",
    }
    sources = ((name, source_class(name)) for name in SOURCES)
    lines += group(
        "Data",
        "data",
        (
            (
                name,
                kind,
                {**defaults(kind, SOURCE_HIDDEN), **DATA_KEYS},
                common | described(kind),
            )
            for name, kind in sources
        ),
    )
    lines += ["\n## Partition\n", summary(Partition) + "\n"]
    lines += table("partition", defaults(Partition, hidden=("nodes", "numbers")), described(Partition))
    lines += ["\n## Problem\n", summary(Problem) + "\n", *table("problem", defaults(Problem), described(Problem))]
    lines += group("Graph", "graph", map(_graph, REGISTRY))
    walks = ((name, kind, defaults(kind), described(kind)) for name, kind in LAWS.items())
    lines += [line.replace("### `graph=", "### `graph.walk=") for line in group("Walks", "graph", walks)]
    methods = ((name, method_class(name)) for name in METHODS)
    lines += group("Algorithm", "algorithm", ((name, kind, defaults(kind), described(kind)) for name, kind in methods))
    for title, kinds in (("Engine", ENGINES), ("Cluster", CLUSTERS)):
        options = ((name, kind, defaults(kind), described(kind)) for name, kind in kinds.items())
        lines += group(title, title.lower(), options)
    for name, kind in SECTIONS.items():
        lines += [f"\n## {name.capitalize()}\n", summary(kind) + "\n", *table(name, defaults(kind), described(kind))]
    lines += [EXPERIMENTS.rstrip("\n"), *_experiments(), ""]
    return "\n".join(lines)


def _graph(name: str) -> tuple[str, Any, dict[str, Any], dict[str, str]]:
    """A topology, whose docstring speaks of its parameters in its first sentences."""
    own = parameters(name)
    meanings = {
        **dict.fromkeys(own, "As said above."),
        "walk": "How tokens walk: `simple`, `lazy`, `metropolis`, or a [walk with keys of its own](#walks).",
        "stay": "Probability with which a token of the lazy walk stays, such as `1/3`; null: 1/2.",
        "seed": "Seed of everything random in it.",
    }
    return name, REGISTRY[name], {"walk": "simple", "stay": None, **own}, meanings


def _experiments() -> Iterator[str]:
    for file in sorted((config_folder() / "experiment").glob("*.yaml")):
        comment = next(
            line for line in file.read_text().splitlines() if line.startswith("# ") and "@package" not in line
        )
        yield f"| `{file.stem}` | {comment[2:].partition(':')[0]} |"


def main() -> int:
    """Write the page, or compare it with what it would be."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
        print(PAGE)
        return 0
    if not PAGE.is_file() or PAGE.read_text() != text:
        print("docs/configuration.md is out of date: run python docs/configuration.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
