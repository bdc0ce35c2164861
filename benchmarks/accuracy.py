"""How long it takes to reach 1e-8, against scikit-learn's solvers on the same objective in the same run.

    python benchmarks/accuracy.py [--size small|full] [--json FILE]

W is rcv1_like with 20 x 9841 rows (small: 20 x 1000), sigma = 1e-5. The objective is F / n = mean logistic loss +
sigma / 2 ||theta||^2, so C = 1 / (N sigma) with N = n m rows and no intercept. dtoken's time counts loading the shards
from zarr and running, not evaluations at record points; scikit-learn's counts the fit, with the data in memory. Both
are held against the same optimum; scikit-learn's tolerance is tightened until 1e-8 is reached.
"""

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import Figures, arguments

from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.tvr import TVR
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.store import ShardStore
from dtoken.engine.experiment import prepare
from dtoken.engine.local import LocalEngine
from dtoken.engine.run import Recording, Stop, run
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.schedule.clock import TimeModel

SIGMA, ACCURACY = 1e-5, 1e-8
METHODS = {
    "tvr, K = 4": TVR(tokens=4),
    "tvr, K = 4, the paper's factor 0.02": TVR(tokens=4, smoothness="factor", sampling="uniform"),
    "tavr, K = 1": TAVR(tokens=1),
    "tavr, K = 1, factor 0.02": TAVR(tokens=1, smoothness="factor"),
}
SOLVERS = {
    "liblinear (dual)": ({"solver": "liblinear", "dual": True}, (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)),
    "lbfgs": ({"solver": "lbfgs"}, (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)),
    "saga": ({"solver": "saga"}, (1e-3, 1e-4, 1e-5, 1e-6)),
}


def ours(problem: FiniteSum, store: ShardStore, method: TVR | TAVR) -> tuple[float, float]:
    """Seconds and passes until the suboptimality of F / n is reached."""
    experiment = prepare(problem, method, walk(build("complete", store.n)), TimeModel(), 0)
    with LocalEngine(method, experiment.constants, store, problem.loss, 2) as engine:  # compiles
        run(experiment, engine, Stop(events=10), Recording())
    began = time.perf_counter()
    with LocalEngine(method, experiment.constants, store, problem.loss, 2) as engine:
        loading = time.perf_counter() - began
        stop = Stop(passes=300, suboptimality=ACCURACY * store.n)
        last = run(experiment, engine, stop, Recording(every_passes=2.0)).records[-1]
    if last.suboptimality > ACCURACY * store.n:
        raise SystemExit(f"{method} did not reach {ACCURACY:g}: {last.suboptimality / store.n:.1e}")
    return loading + last.wall, last.passes


def theirs(problem: FiniteSum, optimum: float, X: sp.csr_matrix, y: np.ndarray, name: str) -> float:
    """Seconds of a fit that reaches the accuracy."""
    from sklearn.linear_model import LogisticRegression

    settings, tolerances = SOLVERS[name]
    for tolerance in tolerances:
        model = LogisticRegression(
            C=1 / (len(y) * SIGMA), fit_intercept=False, tol=tolerance, max_iter=10_000, **settings
        )
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
        if (problem.objective(model.coef_[0]) - optimum) / problem.n <= ACCURACY:
            return seconds
    return float("inf")


def main() -> None:
    warnings.simplefilter("ignore")
    options = arguments(__doc__)
    figures = Figures(options)
    with tempfile.TemporaryDirectory() as folder:
        rows = 196_820 if options.size == "full" else 20_000
        store = ingest(Rcv1Like(rows=rows), Partition(20), root=Path(folder))
        problem = FiniteSum(store, get_loss("logistic"), SIGMA, threads=2)
        reference = prepare(problem, TVR(), walk(build("complete", 20)), TimeModel(), 0).optimum.objective
        shards = [store.shard(node) for node in range(store.n)]
        X = sp.vstack([sp.csr_matrix((s.data, s.indices, s.indptr), shape=(s.rows, store.d)) for s in shards]).tocsr()
        y = np.concatenate([shard.y for shard in shards])
        best_of_theirs = min(_shown(figures, name, theirs(problem, reference, X, y, name)) for name in SOLVERS)
        times = []
        for name, method in METHODS.items():
            seconds, passes = ours(problem, store, method)
            times.append(_shown(figures, f"dtoken {name} ({passes:.0f} passes)", seconds))
        figures.add("best of dtoken / best of scikit-learn", min(times) / best_of_theirs, "ratio", at_most=1.0)
    figures.show()


def _shown(figures: Figures, name: str, seconds: float) -> float:
    figures.add(name, seconds, "s")
    return seconds


if __name__ == "__main__":
    main()
