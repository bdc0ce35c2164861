"""Sizes, laws and reproducibility of partitions."""

import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, kstest

from dtoken.data.partition import DROPPED, KINDS, Partition
from dtoken.errors import InputError


def assign(partition: Partition, y: np.ndarray, cuts: tuple[int, ...] = ()) -> np.ndarray:
    """The node of every row, asked for in blocks that end at ``cuts``."""
    function = partition.assignment(len(y), int((y > 0).sum()))
    edges = [0, *sorted(cut for cut in cuts if cut <= len(y)), len(y)]
    return np.concatenate([function(y[a:b]) for a, b in pairwise(edges)])


def labels(rows: int, share: float = 0.4, seed: int = 0) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(rows) < share, 1.0, -1.0)


partitions = st.builds(
    Partition,
    nodes=st.integers(1, 9),
    kind=st.sampled_from([kind for kind in KINDS if kind != "given"]),
    seed=st.integers(0, 2**64 - 1),
    sizes=st.sampled_from(["equal", "keep", "unequal"]),
    alpha=st.floats(1e-3, 1e3),
)


@given(partitions, st.integers(9, 120), st.floats(0, 1), st.lists(st.integers(0, 120), max_size=5))
def test_sizes_are_exact_and_blocks_do_not_matter(
    partition: Partition, rows: int, share: float, cuts: list[int]
) -> None:
    y = labels(rows, share)
    nodes = assign(partition, y)
    sizes = np.bincount(nodes[nodes != DROPPED], minlength=partition.nodes)
    assert sizes.tolist() == partition.node_sizes(rows).tolist()
    if partition.sizes == "equal":
        assert set(sizes.tolist()) == {rows // partition.nodes}
        assert np.count_nonzero(nodes == DROPPED) == rows % partition.nodes
    else:
        assert sizes.sum() == rows
        assert sizes.min() >= 1
    if partition.sizes == "keep":
        assert sizes.max() - sizes.min() <= 1
    assert assign(partition, y, tuple(cuts)).tolist() == nodes.tolist()
    assert assign(partition, y).tolist() == nodes.tolist()


def test_contiguous_keeps_the_order_and_drops_the_end() -> None:
    assert assign(Partition(3), labels(11)).tolist() == [0] * 4 + [1] * 4 + [2] * 3
    assert assign(Partition(3, sizes="equal"), labels(11)).tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [DROPPED] * 2


def test_every_partition_of_given_sizes_is_equally_likely() -> None:
    y = np.ones(6)
    counts: dict[tuple[int, ...], int] = {}
    trials = 9000
    for seed in range(trials):
        key = tuple(assign(Partition(3, "shuffled", seed), y).tolist())
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 90  # 6! / (2! 2! 2!)
    expected = trials / 90
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    assert 0.001 < chi2.sf(statistic, 89) < 0.999


def test_every_row_is_dropped_equally_often() -> None:
    dropped = np.zeros(10)
    for seed in range(4000):
        dropped += assign(Partition(4, "shuffled", seed, "equal"), np.ones(10)) == DROPPED
    assert dropped.sum() == 2 * 4000
    expected = 2 * 4000 / 10
    # two of ten without replacement: the counts of the rows add up, hence 9 degrees of freedom
    statistic = ((dropped - expected) ** 2 / (expected * (1 - 0.2)) * 9 / 10).sum()
    assert 0.001 < chi2.sf(statistic, 9) < 0.999


def test_shuffled_does_not_look_at_the_labels() -> None:
    y = labels(20_000)
    nodes = assign(Partition(4, "shuffled", 3), y)
    for node in range(4):
        positives = int((y[nodes == node] > 0).sum())
        assert 1e-4 < binom.cdf(positives, 5000, (y > 0).mean()) < 1 - 1e-4


def shares(alpha: float, nodes: int = 400, seed: int = 1, **options: str) -> np.ndarray:
    y = labels(nodes * 500, 0.3, seed=9)
    assigned = assign(Partition(nodes, "dirichlet", seed, alpha=alpha, **options), y)
    return np.array([(y[assigned == node] > 0).mean() for node in range(nodes)])


def test_label_skew_follows_the_dirichlet_law() -> None:
    spreads = []
    for alpha in (0.1, 1.0, 10.0, 1000.0):
        found = shares(alpha)
        assert found.mean() == pytest.approx(0.3, abs=0.005)  # there are only so many positive rows
        # the variance of Beta(a p, a (1 - p)) is p (1 - p) / (a + 1)
        spreads.append(found.std() / np.sqrt(0.3 * 0.7 / (alpha + 1)))
    np.testing.assert_allclose(spreads, 1.0, atol=0.15)
    assert kstest(shares(10.0), "beta", (3.0, 7.0)).pvalue > 1e-3


def test_extreme_skew_separates_the_classes() -> None:
    found = shares(1e-3)  # not to the last row: the shares have to agree with the number of positive rows
    assert ((found < 0.1) | (found > 0.9)).mean() > 0.98


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_dirichlet_with_a_single_class(share: float) -> None:
    nodes = assign(Partition(4, "dirichlet", sizes="equal"), labels(21, share))
    assert np.bincount(nodes[nodes != DROPPED]).tolist() == [5, 5, 5, 5]


def test_unequal_sizes_follow_the_dirichlet_law() -> None:
    even, uneven = (Partition(50, "shuffled", sizes="unequal", alpha=alpha).node_sizes(100_000) for alpha in (1e6, 0.1))
    assert even.sum() == uneven.sum() == 100_000
    assert even.std() < 20
    # the variance of a share is (1/n)(1 - 1/n) / (n a + 1): here about 0.057 of all rows
    assert 3000 < uneven.std() < 12_000


def test_seeds() -> None:
    y = labels(300)
    for kind in ("shuffled", "dirichlet"):
        first, again, other = (assign(Partition(3, kind, seed), y).tolist() for seed in (5, 5, 6))
        assert first == again != other


def test_identity_holds_what_has_influence() -> None:
    assert Partition(3, seed=1).identity() == Partition(3, seed=2, alpha=7).identity()
    assert Partition(3, "shuffled", seed=1).identity() != Partition(3, "shuffled", seed=2).identity()
    assert Partition(3, "shuffled", alpha=1).identity() == Partition(3, "shuffled", alpha=2).identity()
    assert Partition(3, "dirichlet", alpha=1).identity() != Partition(3, "dirichlet", alpha=2).identity()
    assert Partition(3, sizes="unequal").identity() != Partition(3, sizes="unequal", seed=1).identity()
    assert Partition(3, sizes="unequal").identity() != Partition(3, sizes="unequal", alpha=2).identity()
    assert len({str(Partition(3, sizes=sizes).identity()) for sizes in ("equal", "keep", "unequal")}) == 3
    assert str(Partition(3, "dirichlet", alpha=1).identity()) == str(Partition(3, "dirichlet").identity())


def test_memory_does_not_depend_on_the_number_of_rows() -> None:
    y = np.ones(1000)

    def peak(blocks: int) -> int:
        function = Partition(7, "shuffled").assignment(blocks * len(y), None)
        function(y)
        tracemalloc.start()
        for _ in range(blocks - 1):
            function(y)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(300) < peak(3) + 5000


def test_refused() -> None:
    with pytest.raises(InputError, match=r"nodes=21 but the dataset has only 20 rows; use nodes<=20"):
        Partition(21).node_sizes(20)
    with pytest.raises(InputError, match="needs two classes, but the labels are real numbers"):
        Partition(2, "dirichlet").assignment(20, None)


def test_given_numbers_are_taken_row_by_row() -> None:
    numbers = np.array([2, 0, 1, 1, 2, 2])
    partition = Partition.of_rows(numbers)
    assert partition.nodes == 3
    assert partition.node_sizes(6).tolist() == [1, 2, 3]
    assert assign(partition, labels(6), (1, 4)).tolist() == numbers.tolist()


def test_given_numbers_of_a_file_are_those_of_the_array(tmp_path: Path) -> None:
    numbers = [1, 0, 1, 2]
    np.save(tmp_path / "nodes.npy", np.array(numbers))
    (tmp_path / "nodes.txt").write_text("# node\n1\n0\n1\n2\n")
    for name in ("nodes.npy", "nodes.txt"):
        partition = Partition(3, "given", file=tmp_path / name)
        assert assign(partition, labels(4)).tolist() == numbers
    assert Partition.of_rows(numbers).identity() == Partition.of_rows(np.array(numbers, np.uint8)).identity()
    assert Partition.of_rows(numbers).identity() != Partition.of_rows([1, 0, 2, 1]).identity()


def test_identities_of_other_partitions_do_not_know_of_given_numbers() -> None:
    """Stores that were made before they could be given are found again."""
    assert Partition(3, "shuffled").identity() == {"nodes": 3, "kind": "shuffled", "seed": 0, "sizes": "keep"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has the shape (0,)"),
        ("0\n2\n", "node 1 has no rows; number them 0, 1, ..."),
        ("0\n2000000000\n", "node 1 has no rows; number them 0, 1, ..."),
        ("0\n-1\n", "-1.0 of row 1 is not the number of a node"),
        ("0\n0.5\n", "0.5 of row 1 is not the number of a node"),
        ("0\nnan\n", "nan of row 1 is not the number of a node"),
        ("hospital\n", "holds no node numbers"),
        ("0 1\n1 0\n", "has the shape (2, 2)"),
    ],
)
def test_files_of_node_numbers_that_are_none(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "nodes").write_text(text)
    with pytest.raises(InputError) as error:
        Partition(2, "given", file=tmp_path / "nodes").node_sizes(2)
    assert words in str(error.value)


def test_given_numbers_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 3 node numbers for 4 rows"):
        Partition.of_rows([0, 1, 1]).node_sizes(4)
    with pytest.raises(InputError, match="nodes=3 but partition has 2 nodes; use nodes=2"):
        Partition.of_rows([0, 1, 1], nodes=3).node_sizes(3)
    with pytest.raises(InputError, match=r"partition.kind=given needs either partition.file"):
        Partition(3, "given")
    with pytest.raises(InputError, match=r"partition.column is for partition.kind=given, not for contiguous"):
        Partition(3, column=2)
    with pytest.raises(InputError, match="does not exist"):
        Partition(3, "given", file=tmp_path / "none").node_sizes(4)
