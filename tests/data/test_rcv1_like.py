import hashlib
import json
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn.linear_model import LogisticRegression

from dtoken.data.rcv1_like import Rcv1Like
from dtoken.errors import InputError


def load(source: Rcv1Like, **options: int) -> tuple[sp.csr_matrix, np.ndarray]:
    blocks = list(source.blocks(**options))
    parts = [sp.csr_matrix((b.data, b.indices, b.indptr), shape=(b.rows, source.features)) for b in blocks]
    return sp.vstack(parts, "csr"), np.concatenate([block.y for block in blocks])


@pytest.fixture(scope="module")
def sample() -> tuple[sp.csr_matrix, np.ndarray]:
    return load(Rcv1Like(rows=20_000))


def test_default_shape_is_the_papers() -> None:
    source = Rcv1Like()
    assert (source.rows, source.features) == (20 * 9841, 47_236)


def test_blocks_are_valid_csr() -> None:
    for block in Rcv1Like(rows=5000).blocks(block_rows=2000):
        a = sp.csr_matrix((block.data, block.indices, block.indptr), shape=(block.rows, 47_236))
        a.check_format(full_check=True)
        assert a.has_canonical_format
        assert (block.data.dtype, block.indices.dtype, block.indptr.dtype) == (np.float64, np.int32, np.int64)
        assert block.data.min() > 0


def test_row_lengths(sample: tuple[sp.csr_matrix, np.ndarray]) -> None:
    lengths = np.diff(sample[0].indptr)
    assert 71 < lengths.mean() < 75
    assert lengths.min() >= 1
    assert 0.6 < np.log(lengths).std() < 0.8  # RCV1: 0.70


def test_rows_have_norm_one(sample: tuple[sp.csr_matrix, np.ndarray]) -> None:
    norms = np.sqrt(np.asarray(sample[0].power(2).sum(axis=1)).ravel())
    np.testing.assert_allclose(norms, 1.0, rtol=1e-14)


def test_document_frequencies_are_those_of_rcv1(sample: tuple[sp.csr_matrix, np.ndarray]) -> None:
    rows, features = sample[0].shape
    frequency = np.sort(np.bincount(sample[0].indices, minlength=features))[::-1] / rows
    measured_on_rcv1 = {1: 0.43, 10: 0.27, 30: 0.19, 100: 0.11, 300: 0.051, 1000: 0.016, 3000: 0.0032}
    for rank, expected in measured_on_rcv1.items():
        assert frequency[rank - 1] == pytest.approx(expected, rel=0.2), rank
    assert 25_000 < np.count_nonzero(frequency) < 30_000  # RCV1: 27,170


def test_feature_numbers_do_not_follow_frequency(sample: tuple[sp.csr_matrix, np.ndarray]) -> None:
    counts = np.bincount(sample[0].indices, minlength=47_236)
    assert abs(np.corrcoef(np.arange(47_236), np.log1p(counts))[0, 1]) < 0.02


def test_rare_words_weigh_more(sample: tuple[sp.csr_matrix, np.ndarray]) -> None:
    a = sample[0]
    counts = np.bincount(a.indices, minlength=47_236)
    mean = np.bincount(a.indices, weights=a.data, minlength=47_236) / np.maximum(counts, 1)
    order = np.argsort(-counts)
    assert mean[order[:30]].mean() < 0.5 * mean[order[3000:3030]].mean()


@pytest.mark.parametrize("seed", [0, 1])
def test_classes_overlap_as_in_rcv1(seed: int) -> None:
    a, y = load(Rcv1Like(rows=16_000, seed=seed))
    assert set(y) == {-1.0, 1.0}
    assert 0.47 < np.mean(y > 0) < 0.53
    model = LogisticRegression(solver="liblinear").fit(a[:12_000], y[:12_000])
    assert 0.93 < model.score(a[12_000:], y[12_000:]) < 0.97  # RCV1: 0.96


def test_largest_eigenvalue_is_a_small_share_of_the_sum(sample: tuple[sp.csr_matrix, np.ndarray]) -> None:
    # All L_ij are equal (unit rows), so that lambda_max / sum L is that of A^T A over the number of rows.
    (largest,) = svds(sample[0][:5000], k=1, return_singular_vectors=False, rng=np.random.default_rng(0))
    assert 0.01 < largest**2 / 5000 < 0.03  # RCV1: 0.026


def test_a_shorter_set_is_a_prefix() -> None:
    a, y = load(Rcv1Like(rows=100))
    b, z = load(Rcv1Like(rows=1000))
    assert (a != b[:100]).nnz == 0
    assert np.array_equal(y, z[:100])


def test_rows_do_not_depend_on_blocks_or_threads_and_come_again() -> None:
    source = Rcv1Like(rows=500, features=2000, nonzeros=20)
    a, y = load(source)
    for size, threads in ((1, 4), (7, 1), (499, 2), (500, 3), (1000, 1)):
        b, z = load(source, block_rows=size, threads=threads)
        assert (a != b).nnz == 0
        assert np.array_equal(y, z)


def test_seeds_give_other_words_and_other_rows() -> None:
    a, _ = load(Rcv1Like(rows=300, seed=1))
    b, _ = load(Rcv1Like(rows=300, seed=2))
    common = np.bincount(a.indices, minlength=47_236)
    other = np.bincount(b.indices, minlength=47_236)
    assert len(np.intersect1d(np.argsort(-common)[:100], np.argsort(-other)[:100])) < 10


def test_the_output_of_this_generator_version() -> None:
    """Whoever breaks this changed the rows: raise GENERATOR_VERSION, or caches mix old rows with new ones."""
    a, y = load(Rcv1Like(rows=200, seed=5))
    digest = hashlib.sha256(a.indices.astype("<i4").tobytes() + y.astype("<f8").tobytes()).hexdigest()
    assert Rcv1Like().identity()["generator_version"] == 1
    assert digest == "3be0b554ceaef8e5049266334641325389a41fa7ebfa72c6d780237481422ede"


def test_first_blocks_of_a_huge_set_come_at_once() -> None:
    blocks = Rcv1Like(rows=10**12, seed=3).blocks()
    first, second = islice(blocks, 2)
    blocks.close()
    a, _ = load(Rcv1Like(rows=first.rows + second.rows, seed=3))
    assert np.array_equal(a.data, np.concatenate([first.data, second.data]))


@pytest.mark.parametrize(("features", "nonzeros"), [(2, 1), (10, 5), (100, 50), (300, 3)])
def test_small_vocabularies(features: int, nonzeros: int) -> None:
    a, _ = load(Rcv1Like(rows=3000, features=features, nonzeros=nonzeros))
    lengths = np.diff(a.indptr)
    assert lengths.min() >= 1
    assert lengths.mean() == pytest.approx(nonzeros, rel=0.2)
    np.testing.assert_allclose(np.asarray(a.power(2).sum(axis=1)).ravel(), 1.0, rtol=1e-13)


def test_identity_is_json_and_tells_sources_apart() -> None:
    changes = [{}, {"rows": 5}, {"features": 500}, {"nonzeros": 72}, {"seed": 1}]
    texts = {json.dumps(Rcv1Like(**change).identity(), sort_keys=True) for change in changes}
    assert len(texts) == len(changes)
    assert all('"kind": "rcv1_like"' in text for text in texts)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rows": 0}, r"data\.rows=0 must be an integer from 1"),
        ({"rows": "many"}, r"data\.rows='many' must be an integer"),
        ({"features": 1}, r"data\.features=1 must be an integer from 2"),
        ({"nonzeros": 0}, r"data\.nonzeros=0 must be"),
        ({"nonzeros": 7.5}, r"data\.nonzeros=7\.5 must be"),
        ({"seed": 2**64}, r"data\.seed=18446744073709551616 must be"),
        ({"features": 100}, r"data\.nonzeros=73 is more than half of data\.features=100; use nonzeros<=50"),
    ],
)
def test_bad_parameters_are_named(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Rcv1Like(**options)
