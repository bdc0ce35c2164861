"""Facts of a Markov chain whose transition matrices P_0, P_1, ... follow each other cyclically.

Every function takes the matrices of one period and ``hold``, the number of jumps that use each. A fixed
graph is the special case of one matrix. "One period" is the product of all of them, C = P_0^hold P_1^hold ...
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.sparse import coo_array, csgraph, csr_array, diags_array
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, eigsh

from dtoken.compiled import compiled
from dtoken.errors import InputError

if TYPE_CHECKING:
    from dtoken.graph.topology import Sparse

    Tables = Sequence[Sparse]

DENSE = 500  # nodes up to which eigenvalues come from dense algebra
MIXING_ENTRIES = 4_000_000  # numbers in one set of powers: about 1 GB in all for the slowest walk on 2000 nodes
LONGEST_MIXING = 2**40
SLOW = 1e-4  # gap below which a plain Lanczos value is not trusted
LANCZOS = 20_000  # nodes from which the gap is an estimate by Lanczos, with its error
LANCZOS_STEPS = 300  # at most; beyond, the error is what it is
LANCZOS_ERROR = 1e-3  # of the gap, at which Lanczos stops
NEAR_ONE = 1e-10  # distance of the shift from the end of the spectrum; I - P itself is singular


def phase_laws(tables: "Tables", hold: int) -> NDArray[np.float64]:
    """Stationary law of the token before each jump of a period, one per row."""
    n = tables[0].shape[0]
    if all(np.allclose(P.sum(axis=0), 1.0, rtol=0, atol=1e-12) for P in tables):
        return np.full((1, n), 1 / n)
    laws = [_perron(tables, hold)]
    jumps = [P for P in tables for _ in range(hold)]
    for P in jumps[:-1]:
        laws.append(np.asarray(laws[-1] @ P))
    return np.stack(laws)


def _perron(tables: "Tables", hold: int) -> NDArray[np.float64]:
    """Law pi with pi C = pi: from pi (I - C + 1 1') = 1' when small, else the leading eigenvector."""
    n = tables[0].shape[0]
    if n <= DENSE:
        law = np.linalg.solve((np.eye(n) - _one_period(tables, hold) + 1.0).T, np.ones(n))
    else:
        # Half-lazy: the same law, and no other eigenvalue of modulus one to confuse the solver.
        operator = LinearOperator((n, n), lambda v: (v.ravel() + _push(v.ravel(), tables, hold)) / 2, dtype=float)
        law = eigs(operator, k=1, v0=np.ones(n), tol=1e-14)[1][:, 0].real
    law = np.abs(law)
    return np.asarray(law / law.sum())


def _push(law: NDArray[np.float64], tables: "Tables", hold: int) -> NDArray[np.float64]:
    for P in tables:
        for _ in range(hold):
            law = np.asarray(law @ P)
    return law


def _one_period(tables: "Tables", hold: int) -> NDArray[np.float64]:
    C = np.eye(tables[0].shape[0])
    for P in tables:
        C = C @ np.linalg.matrix_power(P.toarray(), hold)
    return C


def second_modulus(tables: "Tables", hold: int, pi: NDArray[np.float64] | None) -> tuple[float, float]:
    """Second largest modulus of an eigenvalue of C, per jump, and how far it may be from one.

    ``pi`` is given when the walk is reversible. Up to LANCZOS nodes the second is 0: it is found to all digits.
    """
    n = tables[0].shape[0]
    if pi is not None:
        return _lanczos(tables[0], pi) if n > LANCZOS else (_second_reversible(tables[0], pi), 0.0)
    if n <= DENSE:
        moduli = np.sort(np.abs(np.linalg.eigvals(_one_period(tables, hold))))
    else:
        operator = LinearOperator((n, n), lambda v: _push(v.ravel(), tables, hold), dtype=float)
        try:  # four, not two: asked for fewer, the solver can miss one of several close moduli
            values = eigs(operator, k=4, v0=_start(n), ncv=60, maxiter=100, return_eigenvectors=False, tol=1e-10)
        except ArpackError as error:
            raise ArithmeticError(str(error)) from None
        moduli = np.sort(np.abs(values))
    return float(min(1.0, moduli[-2]) ** (1 / (len(tables) * hold))), 0.0


def reversible_spectrum(P: "Sparse", pi: NDArray[np.float64]) -> NDArray[np.float64]:
    """All eigenvalues of P, the largest, 1, last."""
    return np.asarray(np.linalg.eigvalsh(_symmetric(P, pi).toarray()))


def _symmetric(P: "Sparse", pi: NDArray[np.float64]) -> "Sparse":
    """D^(1/2) P D^(-1/2), D = diag(pi), which has the eigenvalues of P."""
    root = np.sqrt(pi)
    S = csr_array(diags_array(root) @ P @ diags_array(1 / root))
    return csr_array((S + S.T) / 2)


def _second_reversible(P: "Sparse", pi: NDArray[np.float64]) -> float:
    n, root = len(pi), np.sqrt(pi)
    if n <= DENSE:
        values = reversible_spectrum(P, pi)
        return float(max(-values[0], values[-2], 0.0))
    S = _symmetric(P, pi)
    # Without the known leading pair (1, root), the largest modulus is the one sought.
    rest = LinearOperator((n, n), lambda v: S @ v.ravel() - root * (root @ v.ravel()), dtype=float)
    try:
        values = eigsh(rest, k=1, v0=_start(n), ncv=40, maxiter=30, tol=1e-10, return_eigenvectors=False)
        if np.abs(values[0]) < 1 - SLOW:
            return float(np.abs(values[0]))
    except ArpackError:
        pass
    try:
        return _second_of_slow(S)
    except ArpackError as error:
        raise ArithmeticError(str(error)) from None


def _second_of_slow(S: "Sparse") -> float:
    """Slow walks crowd the ends of the spectrum; shifting and inverting tells their eigenvalues apart."""
    n = S.shape[0]
    high = eigsh(S, k=2, sigma=1 + NEAR_ONE, v0=_start(n), return_eigenvectors=False).min()
    if 2 * S.diagonal().min() - 1 >= -high:  # no eigenvalue lies below this (Gershgorin)
        return float(high)
    low = eigsh(S, k=1, sigma=-1 - NEAR_ONE, v0=_start(n), maxiter=50, tol=1e-8, return_eigenvectors=False)
    return float(max(high, -low[0]))


def _lanczos(P: "Sparse", pi: NDArray[np.float64]) -> tuple[float, float]:
    """The largest modulus beside 1, from below, by Lanczos' three terms, and the norm of its residual.

    Without orthogonalising again: eigenvalues may come twice, but the largest is no other (Paige 1972).
    """
    n, root, S = len(pi), np.sqrt(pi), _symmetric(P, pi)
    v, before = _start(n), np.zeros(n)
    v -= root * (root @ v)
    v /= np.linalg.norm(v)
    diagonal, beside = np.empty(LANCZOS_STEPS), np.zeros(LANCZOS_STEPS)
    for step in range(LANCZOS_STEPS):
        w = S @ v - (beside[step - 1] if step else 0.0) * before
        diagonal[step] = w @ v
        w -= diagonal[step] * v
        w -= root * (root @ w)  # rounding lets the known pair (1, root) grow again
        beside[step] = np.linalg.norm(w)
        if step % 20 == 19 or beside[step] < 1e-14:
            values, vectors = eigh_tridiagonal(diagonal[: step + 1], beside[:step])
            found = int(np.abs(values).argmax())
            modulus, error = float(abs(values[found])), float(beside[step] * abs(vectors[-1, found]))
            if error <= LANCZOS_ERROR * (1 - modulus):
                break
        v, before = w / beside[step], v
    return min(1.0, modulus), error


def _start(n: int) -> NDArray[np.float64]:
    """Fixed start vector: the solver's own is random, and results must not be."""
    return np.random.default_rng(0).standard_normal(n)


def smallest_mixing(tables: "Tables", hold: int, pi: NDArray[np.float64], eps: float) -> int:
    """Smallest N with max_ij |Q_ij - pi_j| <= eps for the products Q of N matrices from every start in the
    period.

    Rows of a longer product are averages of rows of shorter ones, so the distance never grows with N:
    double until it is met, then bisect with the stored powers.
    """
    phases = np.stack([P.toarray() for P in tables]).repeat(hold, axis=0)
    powers = [phases]  # powers[b][s] is the product of 2^b matrices from phase s on
    while not _within(powers[-1], pi, eps):
        reached: int = 2 ** (len(powers) - 1)
        if reached > LONGEST_MIXING:
            raise InputError(f"the walk needs more than {LONGEST_MIXING} jumps to mix; use a larger algorithm.mixing")
        powers.append(_then(powers[-1], reached, powers[-1]))
    if len(powers) == 1:
        return 1
    powers.pop()
    product = powers.pop()
    length: int = 2 ** len(powers)
    for bit in range(len(powers) - 1, -1, -1):
        longer = _then(product, length, powers[bit])
        if not _within(longer, pi, eps):
            length, product = length + 2**bit, longer
    return length + 1


def _then(product: NDArray[np.float64], length: int, following: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiply the products of ``length`` matrices by those that start where they end."""
    longer = product @ np.roll(following, -(length % len(product)), axis=0)
    longer /= longer.sum(axis=2, keepdims=True)  # or rounding would double with every squaring
    return longer


def _within(product: NDArray[np.float64], pi: NDArray[np.float64], eps: float) -> bool:
    return bool((product.max(axis=(0, 1)) - pi).max() <= eps and (pi - product.min(axis=(0, 1))).max() <= eps)


def chain_period(tables: "Tables", hold: int) -> int:
    """Greatest common divisor of the return times, counted in periods of the sequence.

    With d the distance from any one state, it is the common divisor of d(i) + 1 - d(j) over all moves i to j.
    """
    moves = _moves(tables, hold)
    if len(tables) > 1:
        recurrent = _closed_classes(moves)[0]
        moves = moves[recurrent][:, recurrent]
    order, before = csgraph.breadth_first_order(moves, 0)
    distance = hops(order, before)
    start, end = moves.nonzero()
    return int(np.gcd.reduce(np.abs(distance[start] + 1 - distance[end]))) // (len(tables) * hold)


@compiled
def hops(order: NDArray[np.int32], before: NDArray[np.int32]) -> NDArray[np.int64]:
    """Distances from the first node of a breadth-first order, in which ``before`` says from where each was found."""
    distance = np.zeros(len(before), np.int64)
    for node in order[1:]:
        distance[node] = distance[before[node]] + 1
    return distance


def require_one_class(tables: "Tables", hold: int, name: str) -> None:
    """Refuse a varying walk that is caught in some of the nodes although the union is connected."""
    n = tables[0].shape[0]
    classes = _closed_classes(_moves(tables, hold))
    reached = len(np.unique(classes[0] % n))
    if len(classes) > 1:
        what = f"falls into {len(classes)} parts that it never leaves"
    elif reached < n:
        what = f"keeps returning to only {reached} of the {n} nodes"
    else:
        return
    raise InputError(f"{name} {what}, because of the order of the graphs; use graph.walk=lazy")


def _moves(tables: "Tables", hold: int) -> "Sparse":
    """Graph of the states (phase, node), numbered phase * n + node."""
    n, phases = tables[0].shape[0], len(tables) * hold
    pairs = [P.nonzero() for P in tables for _ in range(hold)]
    start = np.concatenate([phase * n + rows for phase, (rows, _) in enumerate(pairs)])
    end = np.concatenate([(phase + 1) % phases * n + columns for phase, (_, columns) in enumerate(pairs)])
    return csr_array(coo_array((np.ones(len(start)), (start, end)), shape=(n * phases, n * phases)))


def _closed_classes(moves: "Sparse") -> list[NDArray[np.int64]]:
    """Sets of states that are never left once entered."""
    count, label = csgraph.connected_components(moves, directed=True, connection="strong")
    start, end = moves.nonzero()
    leaving = np.zeros(count, dtype=np.bool_)
    leaving[label[start][label[start] != label[end]]] = True
    return [np.flatnonzero(label == closed) for closed in np.flatnonzero(~leaving)]


def hitting_time(P: "Sparse", pi: NDArray[np.float64]) -> float:
    """The longest mean number of jumps from one node to another, by the fundamental matrix Z = (I - P + 1 pi')^-1."""
    Z = np.linalg.inv(np.eye(P.shape[0]) - P.toarray() + pi)
    return float(((np.diag(Z) - Z) / pi).max())
