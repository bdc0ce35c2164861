"""The one runner: the state of some nodes of a run, and the loop that lets events happen to them.

Events are planned for the nodes that are hosted here and run by the compiled executor, in one thread or in several,
each with its own group of nodes. Where rows do not all fit into memory, events are first cut into pieces whose rows do.
The local engine is a runner with all nodes; each host of a run on Dask has one with some of them. Tokens pass from
thread to thread in memory that they have in common, also between hosts of one machine, and to and from hosts elsewhere
by a courier.

The schedule fixes the order of everything that touches a node or a token, so the bits depend neither on the number of
threads nor on who hosts what.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from dtoken.algorithms.contract import Arrays, Foreseen, Method, Models, Origin, Vector
from dtoken.engine.events.draws import hosted_samples
from dtoken.engine.events.executor import LEAVING, WAITING, executor
from dtoken.engine.events.plan import Plan, Traffic, make_plan
from dtoken.engine.events.sleeping import look_seconds
from dtoken.engine.handover import Courier, Handover, NoCourier
from dtoken.engine.loop.parts import Part, check, put_part, take_part
from dtoken.engine.loop.rules import index_fault
from dtoken.engine.loop.sampling import Sample
from dtoken.engine.placement import balanced_groups
from dtoken.engine.rows.node_rows import NodeRows
from dtoken.engine.rows.pieces import Piece, PlannedPiece, RowPieces, Step, cut
from dtoken.engine.rows.row_cache import RowCache
from dtoken.errors import InputError, RunError
from dtoken.problem.kernels import exact_parts
from dtoken.schedule.events import Events, no_events
from dtoken.schedule.samples import Samples

T = TypeVar("T")
TABLE = 1 << 23  # values of nodes and models that are kept at once


def _reason(error: Exception) -> str:
    """The lines of an error of numba that say what is wrong, and where."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if not line.startswith("Failed in")), lines[0])
    place = next((line.rstrip(":") for line in lines if line.startswith("File ")), "")
    return f"{told} ({place})" if place else told


@dataclass
class Tally:
    """Where the time of a runner goes, in seconds of all its threads."""

    events: int = 0  # visits and local steps that ran here
    busy: float = 0.0  # in kernels
    waiting: float = 0.0  # without a token
    sending: float = 0.0  # spent sending
    hops_thread: int = 0  # tokens that came here from another node: of the same thread,
    hops_threads: int = 0  # of another thread of this process,
    hops_shared: int = 0  # of another process, through memory that both share,
    hops_network: int = 0  # from elsewhere, as a message

    def add(self, other: "Tally") -> None:
        """Count what another one counted, too."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class Site(NamedTuple):
    """Which nodes are hosted where."""

    thread: NDArray[np.int64]  # (n,) thread of each node; those of all hosts are counted
    host: NDArray[np.int64]  # (threads,) host of each thread
    me: int  # the host at which this is
    token_start: NDArray[np.int64]  # (K,) first node of each token

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The nodes that are hosted here."""
        return np.flatnonzero(self.host[self.thread] == self.me)


def whole_site(work: NDArray[np.int64], threads: int, token_start: NDArray[np.int64], local: bool = True) -> Site:
    """All nodes are hosted here, in threads with about the same work.

    Without ``local`` steps no more nodes compute at a time than there are tokens. Further threads get no nodes, or
    tokens would go from processor to processor for nothing; they help to measure.
    """
    threads = min(threads, len(work))
    busy = threads if local else min(threads, len(token_start))
    return Site(balanced_groups(work, busy), np.zeros(threads, np.int64), 0, token_start)


class Runner:
    """The nodes of a site, and what happens to them.

    Parameters
    ----------
    method, constants
        What is run; constants with one number per hosted node.
    rows
        Of the hosted nodes.
    site
        Which nodes these are, and which threads have them.
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
        courier: Courier | None = None,
        origin: Origin | None = None,
    ) -> None:
        self._method, self._node_rows, self._site, self._origin = method, rows, site, origin
        self.rows, self.numbers = rows.rows, site.numbers
        self._run = executor(method.local, method.visit, method.meet)
        self._samples = hosted_samples(method, constants, self.rows)
        self.tally = Tally()
        self._foreseen: Foreseen | None = None  # which rows the visits after all that happened so far use
        threads = np.flatnonzero(site.host == site.me)
        self._slot = np.full(len(site.thread), -1)  # place of each node among the hosted ones
        self._slot[self.numbers] = np.arange(len(self.numbers))
        self._group = np.full(len(site.thread), -1)
        self._group[self.numbers] = site.thread[self.numbers] - threads[0]
        self._slots = [np.where(self._group == group, self._slot, -1) for group in range(len(threads))]
        self._pool = ThreadPoolExecutor(len(threads), "dtoken-run") if len(threads) > 1 else None
        self.nodes, tokens = rows.start(constants, origin)
        self.handover = Handover(tokens, len(site.token_start), site.host, site.me, courier or NoCourier())
        self._c = constants
        self._place_tokens(site.token_start, np.zeros_like(site.token_start))

    @property
    def threads(self) -> int:
        """How many threads there are here."""
        return len(self.handover.threads)

    def share(self, memory: memoryview | None, hosts: Sequence[int]) -> None:
        """Have tokens in ``memory`` in common with other ``hosts``, or with nobody; then ``begin`` or ``restore``."""
        self._forget()
        self.handover.share(memory, hosts)

    def begin(self, constants: Arrays) -> None:
        """Go to the very start."""
        self._forget()
        self._c = constants
        self.nodes, tokens = self._node_rows.start(constants, self._origin)
        self.handover.put(tokens)
        self._place_tokens(self._site.token_start, np.zeros_like(self._site.token_start))

    def _place_tokens(self, where: NDArray[np.int64], turns: NDArray[np.int64]) -> None:
        thread, first = self._site.thread, self.handover.threads[0]
        self._traffic = Traffic(thread, len(self._site.host), first, where.copy(), turns.copy())
        self.handover.place(thread[where], turns)

    @property
    def tokens(self) -> Arrays:
        """The states of the tokens; out of date for those that are elsewhere."""
        return self.handover.common.tokens

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
        return np.flatnonzero(self._site.host[self._site.thread[self._traffic.where]] == self._site.me)

    def compile(self) -> None:
        """Compile everything, so that the times of a run do not contain it."""
        self.happen(no_events())
        self.finish()

    def happen(self, events: Events) -> None:
        """Let events happen, soon."""
        if (pieces := self._node_rows.pieces) is None:
            self._run_plans(*self._plans(events))
            return
        if self._foreseen is None:
            self._foreseen = self._method.foresee(self._c, self.rows, self.nodes)
        known = (self._samples, pieces.cache, self._method, self._group, self._foreseen)
        for piece in cut(events, self._slot, *known):
            if isinstance(piece, Step):
                self._take_step(piece.node, pieces)
            else:
                pieces.add(partial(self._plan_piece, piece, pieces.cache))

    def finish(self) -> None:
        """Wait until all events have happened."""
        if self._node_rows.pieces is not None:
            self._node_rows.pieces.finish()

    def _forget(self) -> None:
        self._foreseen = None
        if self._node_rows.pieces is not None:
            self._node_rows.pieces.forget()

    def _plan_piece(self, piece: Piece, cache: RowCache) -> PlannedPiece:
        return PlannedPiece(piece.needed(cache), partial(self._run_plans, *self._plans(piece.events)))

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
        turns, before = self._traffic.turns.copy(), self._traffic

        def plan(thread: int, slot: NDArray[np.int64]) -> tuple[Plan, Traffic]:
            traffic = before._replace(me=thread, where=before.where.copy(), turns=before.turns.copy())
            return make_plan(events, slot, self._samples, self.rows.first, traffic), traffic

        pairs = zip(self.handover.threads, self._slots, strict=True)
        # pieces are planned while others are at work in the threads
        made = [plan(*pair) for pair in pairs] if self.streams else self.map(lambda pair: plan(*pair), pairs)
        self._traffic = made[-1][1]  # the same from all
        return [each for each, _ in made], turns

    def _run_plans(self, plans: Sequence[Plan], turns: NDArray[np.int64]) -> None:
        failed = Event()

        def fail() -> None:  # or the other threads would wait for ever
            failed.set()
            self.handover.wake()

        def run_group(thread: int, plan: Plan) -> Tally:
            try:
                return self._run_plan(thread, plan, turns, failed)
            except BaseException:
                fail()
                raise

        try:
            for tally in self.map(lambda pair: run_group(*pair), zip(self.handover.threads, plans, strict=True)):
                self.tally.add(tally)
        except BaseException:
            fail()  # also when this thread was interrupted, which may keep a group from ever starting
            raise

    def _run_plan(self, thread: int, plan: Plan, turns: NDArray[np.int64], failed: Event) -> Tally:
        ways = self.handover
        tally = Tally(plan.events, **{f"hops_{way}": n for way, n in ways.hops(thread, plan.came)._asdict().items()})
        for k in np.flatnonzero(plan.depart >= 0).tolist():
            tally.sending += ways.pass_on(k, int(plan.depart[k]), int(turns[k]))
        cursor, told = np.concatenate([[0], plan.first[:-1]]), np.zeros(2, np.int64)
        state = (self._c, self.rows, self.nodes, self.tokens, ways.common.ready, ways.common.sleeps)
        while not failed.is_set():
            began, told[0] = time.perf_counter(), 0
            try:
                status = self._run(plan, *state, cursor, told, ways.patience)
            except NumbaError as error:
                raise InputError(f"the steps of {self._method.name} cannot be compiled: {_reason(error)}") from error
            taken = time.perf_counter() - began
            idle = min(taken, float(told[0]) * look_seconds()) if told[0] else 0.0
            tally.busy += taken - idle
            tally.waiting += idle
            if status == LEAVING:
                tally.sending += self._pass_on_after(plan, int(told[1]))
            elif status == WAITING:
                began = time.perf_counter()
                ways.wait(thread, plan, cursor, failed.is_set)
                tally.waiting += time.perf_counter() - began
            else:
                break
        return tally

    def _pass_on_after(self, plan: Plan, v: int) -> float:
        """Pass on the tokens of visit v that leave; seconds it took."""
        leaving = (plan.token[v], plan.leave[v], plan.turn[v]), (plan.other[v], plan.other_leave[v], plan.other_turn[v])
        return sum(self.handover.pass_on(int(k), int(to), int(turn) + 1) for k, to, turn in leaving if to >= 0)

    def map(self, function: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """Call ``function`` for all items, side by side if there are several threads."""
        return [function(item) for item in items] if self._pool is None else list(self._pool.map(function, items))

    def models(self, t: float) -> Models:
        """The estimates of the hosted nodes and of the tokens, perhaps the states themselves; out of date for tokens
        that are elsewhere."""
        return self._method.models(self._c, self.nodes, self.tokens, t)

    def values(self, models: Vector) -> Vector:
        """f_i(theta) of every hosted node (rows) and model (columns), without regulariser; or, where that would be a
        large table, a few numbers for each model that have the same sum, without any rounding."""
        each, count = None if self._pool is None else self.map, max(1, TABLE // max(1, len(self.numbers)))
        if count >= len(models):
            return self._node_rows.values(models, each)
        groups = range(0, len(models), count)
        return np.hstack([exact_parts(self._node_rows.values(models[k : k + count], each)) for k in groups])

    def excess(self, models: Vector, theta_star: Vector, sample: Sample) -> Vector:
        """Weighted losses of the rows of a sample that are hosted here, less those at theta*, at each model."""
        own = sample.of(self._slot)
        return self._node_rows.excess(models, theta_star, own.nodes, self.rows.first[own.nodes] + own.rows)

    def part(self, *, copy: bool = True) -> Part:
        """The state of the nodes and tokens that are here: a copy, or to be used before anything happens."""
        here = self.tokens_here
        return take_part(self.numbers, self.rows.first, self.nodes, here, self.tokens, self._traffic, copy=copy)

    def restore(self, parts: Iterable[Part]) -> None:
        """Go back to a cut, from parts that hold all that is hosted here, whoever hosted it then."""
        self._forget()
        nodes, tokens = 0, np.zeros(len(self._site.token_start), bool)
        for part in parts:
            check(index_fault(part.listed, len(self._site.thread), len(tokens)))
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
