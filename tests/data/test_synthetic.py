import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from scipy.stats import kstest, norm

from dtoken.data.synthetic import DENSE_VALUES, SIGNAL, Synthetic
from dtoken.errors import InputError


def load(source: Synthetic, **options: int) -> tuple[sp.csr_matrix, np.ndarray]:
    blocks = list(source.blocks(**options))
    parts = [sp.csr_matrix((b.data, b.indices, b.indptr), shape=(b.rows, source.features)) for b in blocks]
    return sp.vstack(parts, "csr"), np.concatenate([block.y for block in blocks])


def spectrum(rows: sp.csr_matrix) -> np.ndarray:
    return np.linalg.eigvalsh((rows.T @ rows).toarray() / rows.shape[0])


@pytest.mark.parametrize(
    ("rows", "features", "condition"),
    [(1000, 20, 100.0), (50, 50, 1e4), (300, 7, 1.0), (2, 1, 1.0), (500, 60, 1e8)],
)
def test_dense_spectrum_is_log_spaced_and_exact(rows: int, features: int, condition: float) -> None:
    a, _ = load(Synthetic(rows=rows, features=features, condition=condition, seed=3))
    assert a.nnz == rows * features
    expected = np.geomspace(1 / condition, 1.0, features) if features > 1 else [1.0]
    np.testing.assert_allclose(spectrum(a), expected, atol=1e-10)


def test_features_of_a_dense_set_are_mixed() -> None:
    a, _ = load(Synthetic(rows=400, features=10, condition=1e4))
    moment = (a.T @ a).toarray() / 400
    off_diagonal = moment - np.diag(np.diag(moment))
    assert np.abs(off_diagonal).max() > 0.05


@pytest.mark.parametrize(("rows", "low", "high"), [(1000, 0.8, 1.3), (20_000, 0.95, 1.05)])
def test_sparse_condition_number_is_approximate(rows: int, low: float, high: float) -> None:
    # Of the mean square of a column with E[v^2] = 1 and E[v^4] = 9 / (5 density).
    deviation = np.sqrt((9 / (5 * 0.3) - 1) / rows)
    for seed in range(5):
        a, _ = load(Synthetic(rows=rows, density=0.3, condition=100.0, seed=seed))
        eigenvalues = spectrum(a)
        assert low < eigenvalues[-1] / eigenvalues[0] / 100.0 < high
        assert eigenvalues[-1] == pytest.approx(1.0, abs=4 * deviation)


@pytest.mark.parametrize("density", [0.05, 0.123, 0.5, 0.999])
def test_sparse_rows_are_valid_csr_with_the_density_asked_for(density: float) -> None:
    features = 40
    for block in Synthetic(rows=3000, features=features, density=density).blocks():
        counts = np.diff(block.indptr)
        assert set(counts) <= {int(density * features), int(density * features) + 1}
        a = sp.csr_matrix((block.data, block.indices, block.indptr), shape=(block.rows, features))
        a.check_format(full_check=True)
        assert a.has_canonical_format
        assert (block.data.dtype, block.indices.dtype, block.indptr.dtype) == (np.float64, np.int32, np.int64)
        assert np.mean(counts) == pytest.approx(density * features, abs=0.05)


@pytest.mark.parametrize("density", [1.0, 0.4])
def test_rows_do_not_depend_on_blocks_and_come_again(density: float) -> None:
    source = Synthetic(rows=101, features=10, density=density)
    a, y = load(source)
    for size in (1, 7, 101, 1000):
        b, z = load(source, block_rows=size)
        assert (a != b).nnz == 0
        assert np.array_equal(y, z)
    c, _ = load(Synthetic(rows=101, features=10, density=density, seed=1))
    assert (a != c).nnz > 0


def test_a_shorter_sparse_set_is_a_prefix() -> None:
    a, y = load(Synthetic(rows=100, density=0.2))
    b, z = load(Synthetic(rows=1000, density=0.2))
    assert (a != b[:100]).nnz == 0
    assert np.array_equal(y, z[:100])


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_least_squares_finds_theta_where_there_is_no_noise(density: float) -> None:
    source = Synthetic(rows=300, density=density, task="regression", noise=0.0)
    a, y = load(source)
    found, *_ = np.linalg.lstsq(a.toarray(), y, rcond=None)
    np.testing.assert_allclose(found, source.theta, atol=1e-10)


def test_regression_noise_is_normal_with_the_size_asked_for() -> None:
    source = Synthetic(rows=5000, density=0.3, task="regression", noise=0.5)
    a, y = load(source)
    noise = y - a @ source.theta
    assert kstest(noise, norm(scale=0.5).cdf).pvalue > 0.01
    assert np.sqrt(np.mean((a @ source.theta) ** 2)) == pytest.approx(SIGNAL, rel=0.1)


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_labels_follow_the_logistic_model(density: float) -> None:
    source = Synthetic(rows=20_000, density=density)
    a, y = load(source)
    assert set(y) == {-1.0, 1.0}
    probability = expit(a @ source.theta)
    for low in np.arange(0, 1, 0.2):
        inside = (probability >= low) & (probability < low + 0.2)
        deviation = np.sqrt(np.sum(probability[inside] * (1 - probability[inside])))
        assert abs(np.sum(y[inside] > 0) - probability[inside].sum()) < 4 * deviation
    assert 0.1 < np.mean(y != np.sign(a @ source.theta)) < 0.4


@pytest.mark.parametrize("seed", range(20))
def test_two_rows_hold_two_classes(seed: int) -> None:
    for block_rows in (1, 2):
        _, y = load(Synthetic(rows=2, features=2, seed=seed), block_rows=block_rows)
        assert sorted(y) == [-1.0, 1.0]


def test_one_row_is_enough_for_regression() -> None:
    a, y = load(Synthetic(rows=1, features=1, condition=1.0, task="regression"))
    assert a.shape == (1, 1)
    assert np.isfinite(y).all()


def test_identity_is_json_and_tells_sources_apart() -> None:
    def text(**options: object) -> str:
        return json.dumps(Synthetic(**options).identity(), sort_keys=True)

    assert text(condition=100) == text(condition=100.0)
    changes = [{"rows": 999}, {"features": 19}, {"density": 0.5}, {"condition": 99.0}, {"seed": 1}]
    changes += [{"task": "regression"}, {"noise": 0.5}]
    assert len({text(), *(text(**change) for change in changes)}) == len(changes) + 1
    assert {"kind", "generator_version"} <= set(Synthetic().identity())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rows": 0}, r"data\.rows=0 must be an integer from 1"),
        ({"rows": 10.5}, r"data\.rows=10\.5 must be an integer"),
        ({"rows": True}, r"data\.rows=True must be an integer"),
        ({"features": -3}, r"data\.features=-3 must be"),
        ({"seed": -1}, r"data\.seed=-1 must be"),
        ({"density": 1.5}, r"data\.density=1\.5 must lie in \(0, 1\]"),
        ({"density": 0.0}, r"data\.density=0\.0 must lie in \(0, 1\]"),
        ({"density": float("nan")}, r"data\.density=nan must lie in"),
        ({"density": "half"}, r"data\.density='half' must lie in"),
        ({"density": 0.01}, r"data\.density=0\.01 leaves rows .* use density>=0\.05"),
        ({"condition": 0.5}, r"data\.condition=0\.5 must lie in \[1, 1e12\]"),
        ({"condition": float("inf")}, r"data\.condition=inf must lie"),
        ({"noise": -1.0}, r"data\.noise=-1\.0 must lie"),
        ({"task": "ranking"}, r"data\.task='ranking' must be 'classification' or 'regression'"),
        ({"rows": 1, "features": 1, "condition": 1}, r"data\.rows=1 cannot hold two classes"),
        ({"features": 1}, r"data\.condition=100\.0 needs two features"),
        ({"rows": 10}, r"data\.rows=10 is too few for a dense set with data\.features=20"),
        (
            {"rows": DENSE_VALUES},
            r"data\.rows=\d+ with data\.features=20 is above the limit .* use density<1",
        ),
    ],
)
def test_bad_parameters_are_named(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Synthetic(**options)
