"""Whether a method is one: its members, and whether its parts fit together.

What is wrong is said in one sentence before anything runs, not by a traceback in the middle of a run, nor by a run that
makes no progress. What only shows when a method runs is for ``dtoken.testing``.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from numbers import Real
from pathlib import Path
from types import FunctionType, MethodType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from dtoken.algorithms.contract import Arrays, Facts, Method, Models
from dtoken.errors import InputError
from dtoken.problem.blocks import Blocks
from dtoken.problem.hosted import sizes_only
from dtoken.schedule.clock import Costs
from dtoken.schedule.stream import Law
from dtoken.theory.promise import Promise

PAGE = "see docs/add-a-method.md"
MEMBERS = tuple(name for name in (*Method.__annotations__, *vars(Method)) if not name.startswith("_"))
FUNCTIONS = {name: value for name, value in vars(Method).items() if isinstance(value, FunctionType) and name in MEMBERS}
KINDS: dict[str, tuple[type[Any], str]] = {
    "name": (str, "a text"),
    "draws_samples": (bool, "True or False"),
    "reports_nodes": (bool, "True or False"),
    "refuses": (Mapping, "a mapping from keys to reasons"),
    "blocks": (Blocks, "a dtoken.problem.blocks.Blocks"),
    "phases": (tuple, "a tuple of compiled functions"),
}
STEPS = {
    "local": ("c", "rows", "nodes", "i", "r", "t"),
    "visit": ("c", "rows", "nodes", "tokens", "i", "k", "r", "t"),
    "meet": ("c", "tokens", "k", "other", "t"),
    "phases": ("c", "rows", "nodes", "i", "first", "stop", "scratch"),
}
PLAIN = (int, float, bool, str, Path, NoneType, Any)  # what a key may be
FEATURES = 2  # of the rows on which the layout of states is tried


def check_class(kind: Any, title: str) -> None:
    """Refuse a class whose fields cannot be the keys of a method; ``title`` is how the user named it."""
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise InputError(f"{title} is not a dataclass; {PAGE}")
    own = inspect.get_annotations(kind)
    keys = [name for name, hint in own.items() if "ClassVar" not in str(hint)]
    if keys and "__dataclass_params__" not in vars(kind):
        raise InputError(f"{title} has the key {keys[0]}, but no @dataclass(frozen=True) above it makes it one; {PAGE}")
    for name, value in vars(kind).items():
        known = name.startswith("_") or name in own or name in MEMBERS or any(hasattr(b, name) for b in kind.__bases__)
        if not known and isinstance(value, int | float | str | tuple | NoneType):
            raise InputError(f"{title} has {name}={value!r} without a type, so it is no key; write {name}: TYPE = ...")
    _check_fields(kind, title)


def _check_fields(kind: type[Any], title: str) -> None:
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError) as error:
        raise InputError(f"{title} has keys whose types cannot be found: {error}") from None
    for field in fields(kind):
        hint = hints[field.name]
        choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if not all(choice in PLAIN or get_origin(choice) in (tuple, Literal) for choice in choices):
            raise InputError(
                f"{title} has the key {field.name} of type {hint}; use int, float, bool, str, Path, None, a tuple, a "
                "Literal, or several of these"
            )
        if field.default is MISSING and field.default_factory is MISSING and not field.init:
            raise InputError(f"{title} has the key {field.name} without a value; give it a default")


def check_parts(method: Any, title: str) -> None:
    """Refuse what lacks a member of the contract, or has one that cannot be it."""
    if lacking := [name for name in MEMBERS if not hasattr(method, name)]:
        raise InputError(f"{title} is not a method: it lacks {', '.join(lacking)}; {PAGE}")
    for name, (kind, words) in KINDS.items():
        if not isinstance(value := getattr(method, name), kind) or value == "":
            raise InputError(f"{title} has {name}={value!r}, which must be {words}")
    for name, function in FUNCTIONS.items():
        wanted = [*inspect.signature(function).parameters][1:]
        try:
            inspect.signature(getattr(method, name)).bind(*wanted)
        except TypeError:
            raise InputError(f"{title}.{name} cannot be called as {name}({', '.join(wanted)})") from None
    for name in ("local", "visit", "meet"):
        if not (name == "meet" and method.meet is None):
            _check_step(getattr(method, name), name, f"{title}.{name}")
    for number, phase in enumerate(method.phases):
        _check_step(phase, "phases", f"{title}.phases[{number}]")


def _check_step(step: Any, name: str, title: str) -> None:
    if isinstance(step, MethodType):
        raise InputError(f"{title} is a method of the class; write {name} = staticmethod(...) with a compiled function")
    if not hasattr(step, "py_func"):
        raise InputError(f"{title} is not compiled; put @compiled (dtoken.compiled) above it")
    wanted = STEPS[name]
    if len(inspect.signature(step.py_func).parameters) != len(wanted):
        raise InputError(f"{title} must take {len(wanted)} arguments: {', '.join(wanted)}")


def check_fit(method: Method, c: Arrays, facts: Facts, law: Law, costs: Costs) -> None:
    """Refuse a method whose parts do not fit together on the problem that it is for."""
    title = type(method).__name__
    start = method.token_start(facts.n)
    if not (_whole(start, len(start)) and len(start) and start.min() >= 0 and start.max() < facts.n):
        raise InputError(f"{title}.token_start must be the numbers of nodes, one for each token; it is {start!r}")
    _check_constants(c, facts.n, title)
    _check_law(method, law, len(start), facts, title)
    _check_rows(method, law, facts, title)
    for name, counted in (("costs.local", costs.local), ("costs.visit", costs.visit)):
        if not (_whole(counted, facts.n) and (counted >= 0).all()):
            raise InputError(f"{title}.{name} must be {facts.n} whole numbers, one for each node; it is {counted!r}")
    if not _whole(counted := method.start_gradients(facts), facts.n):
        raise InputError(f"{title}.start_gradients must be {facts.n} whole numbers, one for each node: {counted!r}")
    _check_promise(method.promise(c, facts), title)
    _check_layout(method, c, len(start), facts, title)


def _whole(array: Any, size: int) -> bool:
    return isinstance(array, np.ndarray) and array.shape == (size,) and array.dtype.kind in "iu"


def _check_constants(c: Arrays, n: int, title: str) -> None:
    if not hasattr(c, "_asdict"):
        raise InputError(f"{title}.constants must return a NamedTuple, not {type(c).__name__}")
    for name, value in c._asdict().items():
        if isinstance(value, np.ndarray) and value.ndim:
            if value.shape[0] != n or value.dtype.kind not in "fiub":
                raise InputError(
                    f"{title}.constants has {name} of shape {value.shape} and type {value.dtype}; an array has one "
                    f"number for each of the {n} nodes"
                )
        elif not isinstance(value, Real | np.ndarray):
            raise InputError(f"{title}.constants has {name}={value!r}; use numbers, or arrays with one for each node")


def _check_law(method: Method, law: Any, tokens: int, facts: Facts, title: str) -> None:
    if not isinstance(law, Law):
        raise InputError(f"{title}.law must return a dtoken.schedule.stream.Law, not {type(law).__name__}")
    if law.tokens != tokens:
        raise InputError(f"{title}.law has {law.tokens} tokens, but {title}.token_start places {tokens}")
    shares = (law.p_visit, law.p_meet, law.p_here)
    if not (all(0 <= share <= 1 for share in shares) and law.p_visit + law.p_meet <= 1 + 1e-9):
        raise InputError(
            f"{title}.law has p_visit={law.p_visit}, p_meet={law.p_meet} and p_here={law.p_here}: they are "
            "probabilities, and p_visit + p_meet is at most 1"
        )
    nodes = np.asarray(law.nodes)
    if nodes.shape != (facts.n,) or not (nodes >= 0).all() or not np.isclose(nodes.sum(), 1):
        raise InputError(f"{title}.law must give each of the {facts.n} nodes a probability; nodes={nodes!r}")
    if (law.p_meet > 0 or law.p_here > 0) and method.meet is None:
        raise InputError(
            f"{title}.law lets tokens meet, but {title}.meet is None; write meet, or p_meet=0 and p_here=0"
        )


def _check_rows(method: Method, law: Law, facts: Facts, title: str) -> None:
    """Whether steps that use the number of a row get one."""
    if law.computing_visits and not method.draws_samples:
        raise InputError(
            f"{title}.law has computing_visits=True, but draws_samples=False: visits would get no sample; set "
            "draws_samples=True, or let the visit use all rows and computing_visits=False"
        )
    if not method.draws_samples and _takes_row(method.local, STEPS["local"].index("r")):
        raise InputError(
            f"{title}.local uses the row r, but with draws_samples=False r is -1; set draws_samples=True, or use the "
            "rows from rows.first[i] to before rows.first[i + 1]"
        )
    if not law.computing_visits and _takes_row(method.visit, STEPS["visit"].index("r")):
        raise InputError(
            f"{title}.visit uses the row r, which is -1 unless the law has computing_visits=True; set it and "
            "draws_samples=True, or use all rows of the node"
        )
    if not method.draws_samples or law.p_visit == 0:  # 0: the events do not come from the law, but in rounds
        return
    drawing = np.full(facts.n, law.computing_visits) | (law.nodes > 0) & (law.p_visit + law.p_meet < 1)
    if (without := np.flatnonzero(drawing & (facts.samples == 0))).size:
        raise InputError(
            f"node {without[0]} has only empty rows, but {title} draws a sample there; use fewer nodes, or another "
            "partition"
        )


def _takes_row(step: Any, place: int) -> bool:
    """Whether a step uses its row as an index without ever comparing it with anything, so as if there always was one.

    Compiled functions that it is handed on to are part of the step.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(step.py_func)))
    except (OSError, TypeError, SyntaxError):  # typed in at a prompt
        return False
    row = list(inspect.signature(step.py_func).parameters)[place]

    def used(inside: ast.AST) -> bool:
        return any(isinstance(node, ast.Name) and node.id == row for node in ast.walk(inside))

    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.Compare) and used(node) for node in nodes):
        return False
    if any(isinstance(node, ast.Subscript) and used(node.slice) for node in nodes):
        return True
    handed = [
        (step.py_func.__globals__.get(node.func.id), position)
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        for position, argument in enumerate(node.args)
        if isinstance(argument, ast.Name) and argument.id == row
    ]
    return any(hasattr(function, "py_func") and _takes_row(function, position) for function, position in handed)


def _check_promise(promise: Any, title: str) -> None:
    if not isinstance(promise, Promise):
        raise InputError(f"{title}.promise must return a dtoken.theory.promise.Promise, not {type(promise).__name__}")
    for name, rate in (("rate", promise.rate), ("paper_rate", promise.paper_rate)):
        if rate is not None and not (isinstance(rate, Real) and not isinstance(rate, bool) and 0 <= rate <= 1):
            raise InputError(f"{title}.promise has {name}={rate!r}; it is None, or a number from 0 to 1")
    if not (isinstance(promise.basis, str) and promise.basis):
        raise InputError(f"{title}.promise has basis={promise.basis!r}; say in words why the rate is believed")


def _check_layout(method: Method, c: Arrays, tokens: int, facts: Facts, title: str) -> None:
    """The layout of states and models, on as many rows as there are, with few features."""
    rows = int(facts.rows.sum())
    states = method.states(c, sizes_only(facts.n, rows, FEATURES))
    check_states(states, facts.n, rows, tokens, title)
    models = method.models(c, *states, 0.0)
    if not isinstance(models, Models):
        raise InputError(f"{title}.models must return a dtoken.algorithms.contract.Models, not {type(models).__name__}")
    reported = facts.n if method.reports_nodes else tokens
    for name, model, size in (("nodes", models.nodes, facts.n), ("tokens", models.tokens, reported)):
        if getattr(model, "shape", None) != (size, FEATURES) or model.dtype != np.float64:
            raise InputError(
                f"{title}.models has {name} of shape {getattr(model, 'shape', None)} and type "
                f"{getattr(model, 'dtype', type(model).__name__)} where it is ({size}, {FEATURES}) and float64: one "
                "model in each row"
            )


def check_states(states: Any, n: int, rows: int, tokens: int, title: str) -> None:
    """Refuse states that are not arrays of numbers for so many nodes with so many rows, and so many tokens."""
    if not (isinstance(states, tuple) and len(states) == 2 and all(hasattr(state, "_fields") for state in states)):
        raise InputError(f"{title}.states must return two NamedTuples of arrays, of the nodes and of the tokens")
    for owner, state, sizes in (("nodes", states[0], (n, rows)), ("tokens", states[1], (tokens,))):
        for name, array in state._asdict().items():
            _check_array(array, sizes, owner, f"{title}.states has {owner}.{name}")


def _check_array(array: Any, sizes: tuple[int, ...], owner: str, what: str) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise InputError(f"{what}, which is no array of numbers but {getattr(array, 'dtype', type(array).__name__)}")
    if not array.ndim or len(array) not in sizes:
        counted = "nodes, or rows of nodes," if owner == "nodes" else "tokens"
        raise InputError(
            f"{what} of shape {array.shape}: its first axis must count {counted} so {' or '.join(map(str, sizes))}; no "
            "other array survives a checkpoint"
        )
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise InputError(f"{what}, which must be a contiguous array that can be written to; use .copy()")
