"""The one runner: the state of some nodes of a run, and the loop that lets events happen to them.

Events are planned for the nodes that are hosted here and run by the compiled executor, in one thread or in several,
each with its own group of nodes. Where rows do not all fit into memory, events are first cut into pieces whose rows do.
The local engine is a runner with all nodes; each host of a run on Dask has one with some of them. Tokens pass from
thread to thread in shared memory, and to and from other hosts by a courier.

The schedule fixes the order of everything that touches a node or a token, so the bits depend neither on the number of
threads nor on who hosts what.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Method, Models, Origin, Vector
from dtoken.engine.events.draws import hosted_samples
from dtoken.engine.events.executor import LEAVING, WAITING, executor
from dtoken.engine.events.plan import Plan, Traffic, make_plan
from dtoken.engine.loop.parts import Part, put_part, take_part
from dtoken.engine.placement import balanced_groups
from dtoken.engine.rows.node_rows import NodeRows
from dtoken.engine.rows.pieces import Piece, PlannedPiece, RowPieces, Step, cut
from dtoken.engine.rows.row_cache import RowCache
from dtoken.errors import InputError, RunError
from dtoken.schedule.events import Events, no_events
from dtoken.schedule.samples import Samples

T = TypeVar("T")


def _reason(error: Exception) -> str:
    """The lines of an error of numba that say what is wrong, and where."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if not line.startswith("Failed in")), lines[0])
    place = next((line.rstrip(":") for line in lines if line.startswith("File ")), "")
    return f"{told} ({place})" if place else told


class Courier(Protocol):
    """How tokens come from other hosts and go there; called by the threads of a runner."""

    patience: int  # looks for a token before a thread waits for it

    def send(self, k: int, host: int, turn: int) -> None:
        """Send token k, which has been part of ``turn`` visits and meets."""

    def wait(self, come: Callable[[], bool]) -> None:
        """Return when a token may have come, at the latest when ``come()`` is true."""


class NoCourier:
    """There is one host: a token that is not here yet is with another thread."""

    patience = 2000

    def send(self, k: int, host: int, turn: int) -> None:
        """Never called."""
        raise AssertionError(f"token {k} has nowhere to go")

    def wait(self, come: Callable[[], bool]) -> None:
        """Let another thread, which has the token and may need this processor, go on."""
        time.sleep(0)


@dataclass
class Tally:
    """Where the time of a runner goes, in seconds of all its threads."""

    events: int = 0  # visits and local steps that ran here
    busy: float = 0.0  # in kernels
    waiting: float = 0.0  # without a token
    hops: int = 0  # tokens sent
    sending: float = 0.0  # spent sending

    def add(self, other: "Tally") -> None:
        """Count what another one counted, too."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class Site(NamedTuple):
    """Which nodes are hosted where."""

    host: NDArray[np.int64]  # (n,) host of each node
    me: int  # the host at which this is
    token_start: NDArray[np.int64]  # (K,) first node of each token

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The nodes that are hosted here."""
        return np.flatnonzero(self.host == self.me)


def whole_site(n: int, token_start: NDArray[np.int64]) -> Site:
    """All nodes are hosted here."""
    return Site(np.zeros(n, np.int64), 0, token_start)


class Runner:
    """The nodes of a site, and what happens to them.

    Parameters
    ----------
    method, constants
        What is run; constants with one number per hosted node.
    rows
        Of the hosted nodes.
    site
        Which nodes these are.
    threads
        How many groups of nodes work side by side.
    courier
        For tokens that come and go; None: all nodes are hosted here.
    origin
        Where the nodes begin that go on from an earlier run; None: where the method says.
    """

    def __init__(
        self,
        method: Method,
        constants: Arrays,
        rows: NodeRows,
        site: Site,
        *,
        threads: int = 1,
        courier: Courier | None = None,
        origin: Origin | None = None,
    ) -> None:
        self._method, self._node_rows, self._site, self._origin = method, rows, site, origin
        self._courier = courier or NoCourier()
        self.rows, self.numbers = rows.rows, site.numbers
        self._run = executor(method.local, method.visit, method.meet)
        self._samples = hosted_samples(method, constants, self.rows)
        self.ready = np.zeros(len(site.token_start), np.int64)  # turns of each token that is here, -1: it is not
        self.tally = Tally()
        self.threads = threads = min(threads, len(self.numbers))
        self._slot = np.full(len(site.host), -1)  # place of each node among the hosted ones
        self._slot[self.numbers] = np.arange(len(self.numbers))
        self._group = np.full(len(site.host), -1)
        self._group[self.numbers] = balanced_groups(rows.work, threads)
        self._slots = [np.where(self._group == group, self._slot, -1) for group in range(threads)]
        self._pool = ThreadPoolExecutor(threads, "dtoken-run") if threads > 1 else None
        self.begin(constants)

    def begin(self, constants: Arrays) -> None:
        """Go to the very start."""
        self._forget()
        self._c = constants
        self.nodes, self.tokens = self._node_rows.start(constants, self._origin)
        self._place_tokens(self._site.token_start, np.zeros(len(self.ready), np.int64))

    def _place_tokens(self, where: NDArray[np.int64], turns: NDArray[np.int64]) -> None:
        self._traffic = Traffic(self._site.host, self._site.me, where.copy(), turns.copy())
        self.ready[:] = np.where(self._site.host[where] == self._site.me, turns, -1)

    @property
    def streams(self) -> bool:
        """Whether rows are read again and again."""
        return self._node_rows.pieces is not None

    def start_seconds(self) -> float:
        """Seconds that the initial state took."""
        return self._node_rows.start_seconds

    def samples(self) -> Samples:
        """What the hosted nodes draw from."""
        return self._samples

    def margins(self) -> Vector | None:
        """The margins of the hosted rows, if the method keeps them."""
        found = self._method.margins(self._c, self.nodes)
        return None if found is None else np.ascontiguousarray(found)

    @property
    def tokens_here(self) -> NDArray[np.int64]:
        """The tokens that are here when all events have happened."""
        return np.flatnonzero(self._site.host[self._traffic.where] == self._site.me)

    def compile(self) -> None:
        """Compile everything, so that the times of a run do not contain it."""
        self.happen(no_events())
        self.finish()

    def happen(self, events: Events) -> None:
        """Let events happen, soon."""
        if (pieces := self._node_rows.pieces) is None:
            self._run_plans(*self._plans(events))
            return
        for piece in cut(events, self._slot, self._samples, pieces.cache, self._method, self._group):
            if isinstance(piece, Step):
                self._take_step(piece.node, pieces)
            else:
                pieces.add(partial(self._plan_piece, piece, pieces.cache))

    def finish(self) -> None:
        """Wait until all events have happened."""
        if self._node_rows.pieces is not None:
            self._node_rows.pieces.finish()

    def _forget(self) -> None:
        if self._node_rows.pieces is not None:
            self._node_rows.pieces.forget()

    def _plan_piece(self, piece: Piece, cache: RowCache) -> PlannedPiece:
        return PlannedPiece(piece.needed(cache, self._method), partial(self._run_plans, *self._plans(piece.events)))

    def _take_step(self, i: int, pieces: RowPieces) -> None:
        """A local step of node i that uses more rows than fit into memory, phase by phase."""
        scratch = np.empty(self.rows.d)

        def work(phase: Callable[..., None], first: int, stop: int) -> None:
            began = time.perf_counter()
            phase(self._c, self.rows, self.nodes, i, first, stop, scratch)
            self.tally.busy += time.perf_counter() - began

        for phase in self._method.phases:
            pieces.over_node(i, partial(work, phase))
        self.tally.events += 1

    def _plans(self, events: Events) -> tuple[list[Plan], NDArray[np.int64]]:
        """A plan for each group, and the turns of the tokens before them."""
        turns, made = self._traffic.turns.copy(), []
        for slot in self._slots:
            traffic = self._traffic._replace(where=self._traffic.where.copy(), turns=self._traffic.turns.copy())
            made.append(make_plan(events, slot, self._samples, self.rows.first, traffic))
        self._traffic = traffic  # the same from all
        return made, turns

    def _run_plans(self, plans: Sequence[Plan], turns: NDArray[np.int64]) -> None:
        failed = Event()

        def run_group(plan: Plan) -> Tally:
            try:
                return self._run_plan(plan, turns, failed)
            except BaseException:
                failed.set()  # or the other threads would wait for ever
                raise

        try:
            for tally in self.map(run_group, plans):
                self.tally.add(tally)
        except BaseException:
            failed.set()  # also when this thread was interrupted, which may keep a group from ever starting
            raise

    def _run_plan(self, plan: Plan, turns: NDArray[np.int64], failed: Event) -> Tally:
        tally = Tally(events=plan.events)
        for k in np.flatnonzero(plan.depart >= 0).tolist():
            self._send(k, int(plan.depart[k]), int(turns[k]), tally)
        cursor = np.concatenate([[0], plan.first[:-1]])
        state = (self._c, self.rows, self.nodes, self.tokens)
        while not failed.is_set():
            began = time.perf_counter()
            try:
                status = self._run(plan, *state, self.ready, cursor, self._courier.patience)
            except NumbaError as error:
                raise InputError(f"the steps of {self._method.name} cannot be compiled: {_reason(error)}") from error
            tally.busy += time.perf_counter() - began
            if status == LEAVING:
                self._send_after(plan, int(cursor[0]) - 1, tally)
            elif status == WAITING:
                began = time.perf_counter()
                self._courier.wait(self._awaited(plan, int(cursor[0])))
                tally.waiting += time.perf_counter() - began
            else:
                break
        return tally

    def _awaited(self, plan: Plan, v: int) -> Callable[[], bool]:
        """Whether the tokens of visit v have come."""
        k, other = int(plan.token[v]), int(plan.other[v])

        def come() -> bool:
            here = self.ready[k] == plan.turn[v] and (other < 0 or self.ready[other] == plan.other_turn[v])
            return bool(here)

        return come

    def _send_after(self, plan: Plan, v: int, tally: Tally) -> None:
        if plan.leave[v] >= 0:
            self._send(int(plan.token[v]), int(plan.leave[v]), int(plan.turn[v]) + 1, tally)
        if plan.other_leave[v] >= 0:
            self._send(int(plan.other[v]), int(plan.other_leave[v]), int(plan.other_turn[v]) + 1, tally)

    def _send(self, k: int, host: int, turn: int, tally: Tally) -> None:
        began = time.perf_counter()
        self.ready[k] = -1
        self._courier.send(k, host, turn)
        tally.hops += 1
        tally.sending += time.perf_counter() - began

    def map(self, function: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """Call ``function`` for all items, side by side if there are several threads."""
        return [function(item) for item in items] if self._pool is None else list(self._pool.map(function, items))

    def models(self, t: float) -> Models:
        """The estimates of the hosted nodes and of the tokens, perhaps the states themselves; out of date for tokens
        that are elsewhere."""
        return self._method.models(self._c, self.nodes, self.tokens, t)

    def values(self, models: Vector) -> Vector:
        """f_i(theta) of every hosted node (rows) and model (columns), without regulariser."""
        return self._node_rows.values(models, None if self._pool is None else self.map)

    def part(self, *, copy: bool = True) -> Part:
        """The state of the nodes and tokens that are here: a copy, or to be used before anything happens."""
        here = self.tokens_here
        return take_part(self.numbers, self.rows.first, self.nodes, here, self.tokens, self._traffic, copy=copy)

    def restore(self, parts: Iterable[Part]) -> None:
        """Go back to a cut, from parts that hold all that is hosted here, whoever hosted it then."""
        self._forget()
        nodes, tokens = 0, np.zeros(len(self.ready), bool)
        for part in parts:
            nodes += put_part(part, self.numbers, self.rows.first, self.nodes, self.tokens)
            tokens[part.tokens] = True
            where, turns = part.where, part.turns
        if nodes < len(self.numbers):
            raise RunError(f"the checkpoint lacks {len(self.numbers) - nodes} nodes; delete it to start the run anew")
        self._place_tokens(where, turns)
        if not tokens[self.tokens_here].all():
            raise RunError("the checkpoint lacks tokens; delete it to start the run anew")

    def close(self) -> None:
        """End all threads, and reading."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._node_rows.close()
