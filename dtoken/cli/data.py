"""``dtoken-data``: turn a dataset into shards, look at them, check them."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from dtoken.cli.terminal import FAILED, add_version, progress, run_command
from dtoken.errors import InputError
from dtoken.text import closest, sentence


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``dtoken-data``."""
    options, unknown = _parser().parse_known_args(arguments)

    def command() -> int:
        _accept(options, unknown)
        return int(options.command(options))

    return run_command(command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dtoken-data", description="Datasets as zarr shards, one per node.")
    add_version(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_ingest(commands)
    _add_inspect(commands)
    verify = commands.add_parser(
        "verify",
        help="read everything and name each damaged, truncated or missing chunk",
        description="Read everything; exit status 0 only if every bit is as it was written.",
        allow_abbrev=False,
    )
    verify.add_argument("store", type=Path)
    verify.set_defaults(command=_verify)
    return parser


def _add_ingest(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    ingest = commands.add_parser(
        "ingest",
        help="make a store from a source, or find the one that was made before",
        description="Make a store from SOURCE. The last line printed is the store's path.",
        epilog="Examples: dtoken-data ingest rcv1_train.binary.bz2 --nodes 20 --partition shuffled; "
        "dtoken-data ingest rcv1_like rows=196820 --nodes 20",
        allow_abbrev=False,
    )
    add = ingest.add_argument
    add("source", help="svmlight text (.gz, .bz2, .xz), scipy .npz, anndata zarr, synthetic, rcv1_like, tiny")
    add("options", nargs="*", metavar="KEY=VALUE", help="options of the source, e.g. rows=1000")
    add("--nodes", type=int, help="number of nodes (needed)")
    add("--partition", default="contiguous", help="contiguous (default), shuffled, dirichlet or given")
    add("--partition-file", type=Path, help="of given: the number of the node of each row, .npy or one a line")
    add("--partition-column", type=int, help="of given: the feature whose values are the numbers of the nodes")
    add("--seed", type=int, default=0, help="seed of the partition (default 0)")
    add("--sizes", default="keep", help="keep (default: every row, sizes differ by at most one), equal or unequal")
    add("--alpha", type=float, default=1.0, help="concentration of dirichlet and unequal (default 1)")
    add("--labels", default="auto", help="auto (default), classes (two values, to -1/+1) or real")
    add("--store", type=Path, help="folder of all stores (default $DTOKEN_STORE or ~/.cache/dtoken)")
    ingest.set_defaults(command=_ingest)


def _add_inspect(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    inspect = commands.add_parser(
        "inspect",
        help="what to know about a store before a run",
        description="Sizes, labels, row norms, smoothness and condition numbers of a store.",
        allow_abbrev=False,
    )
    inspect.add_argument("store", type=Path)
    inspect.add_argument("--json", action="store_true", help="everything, for scripts")
    inspect.add_argument("--loss", help="a loss, such as logistic or squared (default by the labels)")
    inspect.add_argument("--sigma", type=float, help="regulariser for the condition numbers (default: that of runs)")
    inspect.set_defaults(command=_inspect)


def _accept(options: argparse.Namespace, unknown: list[str]) -> None:
    """Take KEY=VALUE options that stand behind others, which argparse leaves over; refuse the rest."""
    for argument in unknown:
        if "options" in options and not argument.startswith("-"):
            options.options.append(argument)
            continue
        if not argument.startswith("-"):
            raise InputError(f"{argument} is one too many: this command takes one store at a time")
        known = [f"--{name}" for name in vars(options) if name not in ("command", "options", "source", "store")]
        close = closest(argument.partition("=")[0], [*known, "--store"])
        raise InputError(f"{argument} is not known" + (f"; did you mean {close}?" if close else "; see --help"))


def _ingest(options: argparse.Namespace) -> int:
    from dtoken.data.ingest import ingest
    from dtoken.data.partition import Partition
    from dtoken.data.sources import open_source

    if options.nodes is None:
        raise InputError("the number of nodes is missing; say it with --nodes N")
    how = (options.partition, options.seed, options.sizes, options.alpha)
    partition = Partition(options.nodes, *how, options.partition_file, options.partition_column)
    source = open_source(options.source, dict(_key_value(option) for option in options.options))
    try:
        with progress() as watcher:
            store = ingest(source, partition, root=options.store, labels=options.labels, watcher=watcher)
    except InputError as error:
        raise InputError(f"{sentence(error)} Nothing was written") from None
    meta = store.meta
    print(f"{meta.rows:,} rows x {meta.d:,} features, {meta.nonzeros:,} non-zeros, {meta.n} nodes")
    if meta.dropped_rows:
        print(f"{meta.dropped_rows:,} rows left over were dropped (--sizes keep would keep them)")
    if meta.classes:
        print("labels " + ", ".join(f"{theirs} -> {ours:+g}" for theirs, ours in meta.label_map.items()))
    else:
        print("labels are real numbers")
    print(f"the first feature had index {meta.index_base}")
    print(store.path)
    return 0


def _key_value(option: str) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    if not equals:
        raise InputError(f"{option} is not of the form KEY=VALUE")
    return key, value


def _inspect(options: argparse.Namespace) -> int:
    from dtoken.cli.description import show
    from dtoken.config.sections import Problem
    from dtoken.data.store import ShardStore
    from dtoken.problem.describe import describe

    store = ShardStore.open(options.store)
    sigma = Problem().sigma if options.sigma is None else options.sigma
    with progress() as watcher:
        description = describe(store, options.loss, sigma, stage=watcher.stage)
    if options.json:
        print(json.dumps(description.as_dict(), indent=2))
    else:
        show(description)
    return 0


def _verify(options: argparse.Namespace) -> int:
    from dtoken.data.store import ShardStore
    from dtoken.data.verify import verify

    store = ShardStore.open(options.store)
    with progress() as watcher:
        watcher.stage(f"verifying {store.path.name}")
        faults = verify(store, watcher.advance)
    for fault in faults:
        print(fault)
    if faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        print(f"{count} in {store.path}; delete it and ingest again.", file=sys.stderr)
        return FAILED
    print(f"{store.path}: all {store.n} shards are intact")
    return 0


if __name__ == "__main__":
    sys.exit(main())
