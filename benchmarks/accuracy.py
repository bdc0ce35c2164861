"""How long it takes to reach 1e-8, against scikit-learn's solvers on the same objective in the same run.

    python benchmarks/accuracy.py [--size small|full] [--json FILE]

W is rcv1_like with 20 x 9841 rows (small: 20 x 1000), sigma = 1e-5. The objective is F / n = mean logistic loss +
sigma / 2 ||theta||^2, so C = 1 / (N sigma) with N = n m rows and no intercept. dtoken's time counts reading the shards
from zarr, the constants and running on two threads, not evaluations at record points; scikit-learn's counts the fit,
with the data in memory. Both are held against the same optimum; scikit-learn's tolerance is tightened until 1e-8 is
reached. All take turns, and the fastest turn of each counts. snapml (PyPI) joins them where it is installed, as a peer
without a target.
"""

import shutil
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import Figures, arguments, in_turns

from dtoken.algorithms.contract import Method
from dtoken.algorithms.sdca import SDCA
from dtoken.algorithms.tavr import TAVR
from dtoken.algorithms.tvr import TVR
from dtoken.data.ingest import ingest
from dtoken.data.partition import Partition
from dtoken.data.rcv1_like import Rcv1Like
from dtoken.data.store import ShardStore
from dtoken.engine.local import LocalEngine
from dtoken.engine.loop.accuracy import crossing
from dtoken.engine.loop.experiment import Experiment, gather_facts
from dtoken.engine.loop.recorder import Record
from dtoken.engine.loop.run import run
from dtoken.engine.loop.settings import Recording, Stop
from dtoken.graph import build, walk
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.losses import get_loss
from dtoken.problem.optimum import Optimum, optimum
from dtoken.schedule.clock import TimeModel

SIGMA, ACCURACY = 1e-5, 1e-8
METHODS = {
    "tvr, K = 4": TVR(tokens=4),
    "tvr, K = 4, the paper's factor 0.02": TVR(tokens=4, smoothness="factor", sampling="uniform"),
    "tavr, K = 1": TAVR(tokens=1),
    "tavr, K = 1, factor 0.02": TAVR(tokens=1, smoothness="factor"),
    "tavr, K = 1, factor 0.01": TAVR(tokens=1, smoothness="factor", factor=0.01),  # about the true eigenvalue
    "tavr, K = 1, factor 0.01, permuted": TAVR(tokens=1, smoothness="factor", factor=0.01, sampling="permuted"),
    "sdca, share 1": SDCA(share=1.0),
    "sdca, share 0.3": SDCA(share=0.3),
    "sdca, share 0.1": SDCA(share=0.1),
}
ONCE = ("tvr, K = 4", "tvr, K = 4, the paper's factor 0.02", "tavr, K = 1")  # slow: not the best, or eigenvalues
TURNS = 3
SOLVERS = {
    "liblinear (dual)": ({"solver": "liblinear", "dual": True}, (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)),
    "lbfgs": ({"solver": "lbfgs"}, (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)),
    "saga": ({"solver": "saga"}, (1e-3, 1e-4, 1e-5, 1e-6)),
}
SNAPML, SNAPML_TOLERANCES = "snapml, two threads", (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


class Ours:
    """A method of dtoken on the store."""

    def __init__(self, store: ShardStore, method: Method, optimum: Optimum) -> None:
        self.store, self.method, self.optimum, self.passes = store, method, optimum, 0.0
        self._run(Stop(events=10))  # compiles

    def seconds(self) -> float:
        """Reading the store, constants, and running until the suboptimality of F / n stays below; no evaluations."""
        n = self.store.n
        began = time.perf_counter()
        records, preparing = self._run(Stop(passes=300, suboptimality=ACCURACY * n))
        there = crossing([record.suboptimality for record in records], ACCURACY * n).stays_below
        if there is None:
            raise SystemExit(f"{self.method} did not reach {ACCURACY:g}: {records[-1].suboptimality / n:.1e}")
        self.passes, self.preparing, self.running = records[there].passes, preparing - began, records[there].wall
        return self.preparing + self.running

    def _run(self, stop: Stop) -> tuple[list[Record], float]:
        shutil.rmtree(f"{self.store.path}.facts", ignore_errors=True)  # constants of an earlier turn
        method, problem = self.method, FiniteSum(self.store, get_loss("logistic"), SIGMA, threads=2)
        facts = gather_facts(problem, walk(build("complete", problem.n)))
        c = method.constants(facts)
        law, costs = method.law(c, facts), method.costs(facts)
        experiment = Experiment(problem, method, facts.walk, facts, c, law, costs, TimeModel(), 0, self.optimum)
        with LocalEngine(method, c, self.store, problem.loss, 2) as engine:
            prepared = time.perf_counter()
            return run(experiment, engine, stop, Recording(every_passes=1.0)).records, prepared


class Theirs:
    """A solver of scikit-learn, or snapml, with the loosest tolerance that reaches the accuracy."""

    def __init__(self, problem: FiniteSum, optimum: float, X: sp.csr_matrix, y: np.ndarray, name: str) -> None:
        self._name, self._X, self._y = name, X, y
        for self._tolerance in SNAPML_TOLERANCES if name == SNAPML else SOLVERS[name][1]:
            self.seconds()
            if (problem.objective(self._model.coef_.ravel()) - optimum) / problem.n <= ACCURACY:
                return
        raise SystemExit(f"{name} did not reach {ACCURACY:g}")

    def seconds(self) -> float:
        """One fit."""
        self._model = solver(self._name, len(self._y) * SIGMA, self._tolerance)
        began = time.perf_counter()
        self._model.fit(self._X, self._y)
        return time.perf_counter() - began


def solver(name: str, strength: float, tolerance: float) -> Any:
    """A solver of the sum of all losses and strength / 2 ||theta||^2, with nothing fitted yet."""
    if name == SNAPML:
        from snapml import LogisticRegression as SnapLogisticRegression

        return SnapLogisticRegression(regularizer=strength, tol=tolerance, max_iter=10_000, n_jobs=2)
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1 / strength, fit_intercept=False, tol=tolerance, max_iter=10_000, **SOLVERS[name][0])


def main() -> None:
    warnings.simplefilter("ignore")
    options = arguments(__doc__)
    figures = Figures(options)
    with tempfile.TemporaryDirectory() as folder:
        rows = 196_820 if options.size == "full" else 20_000
        store = ingest(Rcv1Like(rows=rows), Partition(20), root=Path(folder))
        problem = FiniteSum(store, get_loss("logistic"), SIGMA, threads=2)
        best = optimum(problem)
        shards = [store.shard(node) for node in range(store.n)]
        X = sp.vstack([sp.csr_matrix((s.data, s.indices, s.indptr), shape=(s.rows, store.d)) for s in shards]).tocsr()
        y = np.concatenate([shard.y for shard in shards])
        peers = [*SOLVERS, *([SNAPML] if find_spec("snapml") else [])]
        solvers = {name: Theirs(problem, best.objective, X, y, name) for name in peers}
        methods = {name: Ours(store, method, best) for name, method in METHODS.items()}
        work = {name: solver.seconds for name, solver in solvers.items()}
        work |= {name: method.seconds for name, method in methods.items() if name not in ONCE}
        seconds = in_turns(TURNS, **work) | {name: methods[name].seconds() for name in ONCE}
        for name, taken in seconds.items():
            passes = f" ({methods[name].passes:.0f} passes)" if name in methods else ""
            figures.add(("dtoken " if passes else "") + name + passes, taken, "s")
        theirs = min(seconds[name] for name in SOLVERS)
        best_of_ours = methods[min(methods, key=lambda name: seconds[name])]
        steps = best_of_ours.passes * rows
        figures.add("the best of dtoken: reading the store, constants", best_of_ours.preparing, "s")
        figures.add("the best of dtoken: a step, on both cores", best_of_ours.running / steps * 1e9, "ns")
        for name, kind, target in (("best of dtoken", "", 0.6), ("best of tavr", "tavr", 1.3)):
            ratio = min(seconds[each] for each in methods if each.startswith(kind)) / theirs
            at_most = target if options.size == "full" else None  # small sets are not what tokens are for
            figures.add(f"{name} / best of scikit-learn", ratio, "ratio", at_most=at_most)
    figures.show()


if __name__ == "__main__":
    main()
