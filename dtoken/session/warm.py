"""A start from the result of an earlier run (``algorithm.start=warm``): the same data; sigma, tokens, graph may differ.

In every run the mean of all models of nodes and tokens is theta(z) = -G / (n sigma), G = sum_ij phi_ij'(z_ij) a_ij; so
with another sigma margins and models cannot both stay as they are. The margins become c z_ij + b y_ij (with a larger c
models grow, with a larger b slopes fall), where c and b make the duality gap as small as they can,

    F(theta(z)) + ||G||^2 / (2 n sigma) + sum_ij phi_ij*(phi_ij'(z_ij)),

which costs some dozens of passes over the data. Then all models are moved by the same vector, to where the invariant
holds. With the same sigma c = 1 and b = 0, and a run with the same tokens begins where the earlier one ended: the
vector is 0 but for rounding.

Results of methods that keep no margins stand for z_ij = a_ij^T theta.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dtoken.algorithms.contract import Method, Origin, Vector
from dtoken.errors import InputError
from dtoken.problem import kernels
from dtoken.problem.finite_sum import FiniteSum
from dtoken.problem.shards import in_order
from dtoken.session.files import DONE, load_summary, read_result

CLOSE = 0.02  # of c and b
MOST_LOOKS = 60  # at the duality gap, two passes each


def origin_of(method: Method) -> Path | None:
    """The directory of the run that ``method`` goes on from."""
    found = getattr(method, "start_from", None)
    return None if found is None else Path(found)


def check_origin(directory: Path) -> dict[str, Any]:
    """The summary of the run to go on from; InputError unless it is finished."""
    key = f"algorithm.start_from={directory}"
    summary = load_summary(directory)
    if summary is None:
        raise InputError(f"{key} does not hold a run; give the directory of one")
    if summary["status"] != DONE:
        raise InputError(f"{key} holds a run that is not done but {summary['status']}; let it end, or use another one")
    return summary


def origin(directory: Path, data: str, problem: FiniteSum, method: Method) -> Origin:
    """Where a run of ``method`` on ``problem`` begins that goes on from the one in ``directory``.

    Parameters
    ----------
    directory
        Of the earlier run.
    data
        Key of the data of the new run.
    problem, method
        Of the new run.
    """
    summary = check_origin(directory)
    if summary["data"]["key"] != data:
        raise InputError(
            f"algorithm.start_from={directory} is a run on other data ({summary['data']['key']}, "
            f"{summary['data']['nodes']} nodes; now {data}, {problem.n} nodes); margins belong to rows and nodes"
        )
    arrays = read_result(directory)
    scale = problem.sigma / float(summary["config"]["problem"]["sigma"])
    z, G = _moved(problem, _margins(problem, arrays), scale)
    nodes, tokens = arrays["nodes"], _tokens(arrays, method, problem.n)
    models = [nodes] if method.reports_nodes else [nodes, tokens]
    count = sum(map(len, models))
    missing = np.sum([part.sum(axis=0) for part in models], axis=0) / count + G / (problem.n * problem.sigma)
    for part in models:
        part -= missing
    if not all(np.isfinite(array).all() for array in (nodes, tokens, z)):
        raise InputError(f"algorithm.start_from={directory} has numbers in its result that are not finite")
    return Origin(nodes, tokens, z)


def _tokens(arrays: dict[str, Any], method: Method, n: int) -> Vector:
    """The same tokens, or, for another number of them, their mean."""
    wanted = len(method.token_start(n))
    return np.array(arrays["tokens"] if len(arrays["tokens"]) == wanted else np.tile(arrays["theta"], (wanted, 1)))


def _margins(problem: FiniteSum, arrays: dict[str, Any]) -> Vector:
    """Those of the result, or a^T theta."""
    if "margins" in arrays:
        found: Vector = arrays["margins"]
        return found
    z = np.empty(np.sum(problem.shards.node_rows))
    for group in range(problem.reader.groups):
        for rows, _, row in problem.reader.blocks(group):
            kernels.margins(rows.data, rows.indices, rows.indptr, arrays["theta"], z[row : row + rows.rows])
    return z


def _moved(problem: FiniteSum, z: Vector, scale: float) -> tuple[Vector, Vector]:
    """Margins for a regulariser that has changed by the factor ``scale``, and their G."""
    if scale == 1.0:
        return z, _dual(problem, z, (1.0, 0.0), z)[1]
    out, root = np.empty_like(z), math.sqrt(scale)

    def gap(move: Vector) -> float:
        dual, G = _dual(problem, z, move, out)
        return dual + problem.objective(-G / (problem.n * problem.sigma))

    corners = np.array([[1.0, 0.0], [1 / root, 0.0], [1.0, -math.log(root)]])
    options: Any = {"initial_simplex": corners, "xatol": CLOSE, "fatol": math.inf, "maxfev": MOST_LOOKS}
    best = minimize(gap, corners[0], method="Nelder-Mead", options=options)
    return out, _dual(problem, z, best.x, out)[1]


def _dual(problem: FiniteSum, z: Vector, move: Sequence[float] | Vector, out: Vector) -> tuple[float, Vector]:
    """The dual objective at c z + b y, which is left in ``out``, and G."""
    reader, code = problem.reader, problem.loss.code

    def of_group(group: int) -> tuple[Vector, Vector, NDArray[np.int64]]:
        m = np.diff(reader.bounds(group))
        totals, slopes = np.zeros((len(m), 2)), np.zeros((len(m), problem.d))
        for rows, nodes, row in reader.blocks(group):
            own = slice(row, row + rows.rows)
            out[own] = move[0] * z[own] + move[1] * rows.y
            kernels.add_slopes(code, *rows, nodes, out[own], totals, slopes)
        return kernels.compensated_sums(totals[:, None])[:, 0] / m, slopes, m

    conjugates, G = [], np.zeros(problem.d)
    for of_nodes, slopes, m in in_order(of_group, reader.groups, problem.threads):
        conjugates.append(of_nodes)
        kernels.add_means(slopes, m, G)
    quadratic = kernels.squared_norm(G) / (2 * problem.n * problem.sigma)
    return math.fsum([quadratic, *np.concatenate(conjugates).tolist()]), G
