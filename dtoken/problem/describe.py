"""What a researcher wants to know about a dataset before a run, as one value."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dtoken.data.store import ShardStore
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.problem.smoothness import batch_smoothness, row_facts, sum_smoothness


@dataclass(frozen=True)
class Description:
    """Size, labels, rows, smoothness and condition numbers of a store."""

    path: str
    digest: str  # the identity of the store
    source: dict[str, Any]
    partition: dict[str, Any]
    nodes: int
    features: int
    rows: int
    dropped_rows: int
    nonzeros: int
    density: float
    disk_bytes: int
    index_base: int
    classes: bool
    label_map: dict[str, float]
    positive_share: float | None  # None: labels are real numbers
    node_rows: list[int]
    node_nonzeros: list[int]
    node_positive_share: list[float] | None
    empty_rows: int
    row_norm_min: float  # over rows that are not empty
    row_norm_rms: float  # root mean square, over the same rows
    row_norm_max: float
    loss: str
    sigma: float
    sum_smoothness: float  # max_i sum_j L_ij
    batch_smoothness: float  # max_i lambda_max
    kappa_s: float  # 1 + max_i sum_j L_ij / sigma
    kappa: float  # 1 + max_i lambda_max / sigma

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


def describe(
    store: ShardStore,
    loss: str | None,
    sigma: float,
    stage: Callable[[str], None] = lambda _: None,
) -> Description:
    """Describe a store; smoothness and condition numbers are those of ``loss`` with regulariser ``sigma``.

    Parameters
    ----------
    store
        An open store.
    loss
        Name of a loss; None takes logistic for two classes and squared for real labels.
    sigma
        The regulariser of each node.
    stage
        Told what is computed next.
    """
    meta = store.meta
    problem = FiniteSum(store, get_loss(loss or ("logistic" if meta.classes else "squared")), sigma)
    stage("measuring rows")
    facts = row_facts(problem, cache=False)
    used = facts.rows - facts.empty
    nonempty = facts.q_min[used > 0]
    largest_sum = float(sum_smoothness(problem, facts).max())
    stage("computing smoothness")
    largest_batch = float(batch_smoothness(problem).max())
    return Description(
        path=str(store.path),
        digest=store.digest,
        source=meta.source,
        partition=meta.partition,
        nodes=meta.n,
        features=meta.d,
        rows=meta.rows,
        dropped_rows=meta.dropped_rows,
        nonzeros=meta.nonzeros,
        density=meta.nonzeros / (meta.rows * meta.d),
        disk_bytes=_disk_bytes(store.path),
        index_base=meta.index_base,
        classes=meta.classes,
        label_map=meta.label_map,
        positive_share=int(meta.node_positives.sum()) / meta.rows if meta.classes else None,
        node_rows=meta.node_rows.tolist(),
        node_nonzeros=meta.node_nonzeros.tolist(),
        node_positive_share=_shares(store) if meta.classes else None,
        empty_rows=int(facts.empty.sum()),
        row_norm_min=float(np.sqrt(nonempty.min())) if len(nonempty) else 0.0,
        row_norm_rms=float(np.sqrt(facts.q_sum.sum() / max(1, used.sum()))),
        row_norm_max=float(np.sqrt(facts.q_max.max())),
        loss=problem.loss.name,
        sigma=sigma,
        sum_smoothness=largest_sum,
        batch_smoothness=largest_batch,
        kappa_s=1 + largest_sum / sigma,
        kappa=1 + largest_batch / sigma,
    )


def _shares(store: ShardStore) -> list[float]:
    shares: list[float] = (store.meta.node_positives / store.node_rows).tolist()
    return shares


def _disk_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
