"""The page that ``dtoken-data inspect`` prints."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dtoken.problem.describe import Description

NODES_SHOWN = 24


def show(description: Description) -> None:
    """Print a description for a person."""
    console = Console(highlight=False)
    for name, value in _facts(description):
        # Text, not markup: a path may contain brackets. Lines are left whole for grep and for copying.
        console.print(Text.assemble((f"{name:<12}", "bold"), value), soft_wrap=True)
    console.print()
    console.print(_nodes(description))


def _facts(this: Description) -> list[tuple[str, str]]:
    origin = this.source.get("path", this.source["kind"])
    how = ", ".join(f"{key} {value}" for key, value in this.partition.items() if key != "nodes")
    labels = "real numbers"
    if this.positive_share is not None:
        mapping = ", ".join(f"{theirs} -> {ours:+g}" for theirs, ours in this.label_map.items())
        labels = f"{this.positive_share:.1%} positive ({mapping})"
    dropped = f" ({this.dropped_rows:,} dropped)" if this.dropped_rows else ""
    empty = f"; {this.empty_rows:,} empty rows" if this.empty_rows else ""
    ratio = this.batch_smoothness / this.sum_smoothness if this.sum_smoothness else 0.0
    norms = f"{this.row_norm_min:.4g} to {this.row_norm_max:.4g}, root mean square {this.row_norm_rms:.4g}"
    return [
        ("store", f"{this.path}, {this.disk_bytes / 1e6:,.1f} MB"),
        ("identity", this.digest),
        ("source", f"{origin}, first index {this.index_base}"),
        ("size", f"{this.rows:,} rows{dropped} x {this.features:,} features"),
        (
            "non-zeros",
            f"{this.nonzeros:,} ({this.nonzeros / this.rows:.1f} a row, density {this.density:.3g})",
        ),
        ("labels", labels),
        ("partition", f"{this.nodes} nodes, {how}"),
        ("row norms", norms + empty),
        (
            "smoothness",
            f"{this.loss}: sum of L_ij {this.sum_smoothness:.4g}, "
            f"whole node (lambda_max) {this.batch_smoothness:.4g}, ratio {ratio:.3g}",
        ),
        ("condition", f"sigma {this.sigma:g}: kappa_s {this.kappa_s:,.4g}, kappa {this.kappa:,.4g}"),
    ]


def _nodes(this: Description) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("node", "rows", "non-zeros", "positive"):
        table.add_column(heading, justify="right")
    for node in range(min(this.nodes, NODES_SHOWN)):
        share = "" if this.node_positive_share is None else f"{this.node_positive_share[node]:.1%}"
        table.add_row(str(node), f"{this.node_rows[node]:,}", f"{this.node_nonzeros[node]:,}", share)
    if this.nodes > NODES_SHOWN:
        rows = this.node_rows
        table.add_row("...", f"{min(rows):,} to {max(rows):,}", "", "")
    return table
