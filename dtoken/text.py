"""How dtoken writes to people: sentences, suggestions, numbers. Each way of writing is defined here, once."""

import math
import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches


def sentence(message: object) -> str:
    """A message with a full stop at its end, unless it has an end already.

    Examples
    --------
    >>> sentence("nodes=0 must be positive"), sentence("Did you mean ring?")
    ('nodes=0 must be positive.', 'Did you mean ring?')
    """
    text = str(message)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def closest(value: object, known: Iterable[str]) -> str | None:
    """The name that a user may have meant by ``value``, perhaps a part of it; None: none is close.

    Examples
    --------
    >>> closest("rign", ["ring", "path"]), closest("hinge", ["logistic", "smooth_hinge"]), closest("x", ["complete"])
    ('ring', 'smooth_hinge', None)
    """
    names, part = list(known), str(value)
    found = get_close_matches(part, names, 1) or [name for name in names if len(part) > 2 and part in name]
    return found[0] if found else None


def did_you_mean(value: object, known: Iterable[str], prefix: str = "") -> str:
    """A question to put between two sentences; empty if no name is close.

    Examples
    --------
    >>> did_you_mean("rign", ["ring", "path"]), did_you_mean("sigm", ["sigma"], "problem."), did_you_mean("x", ["ring"])
    ('Did you mean ring? ', 'Did you mean problem.sigma? ', '')
    """
    close = closest(value, known)
    return f"Did you mean {prefix}{close}? " if close else ""


def use_one_of(value: object, known: Iterable[str], prefix: str = "") -> str:
    """What to do about a name that is not known; to stand after a semicolon.

    Examples
    --------
    >>> use_one_of("rign", ["ring", "path"]), use_one_of("x", ["ring", "path"])
    ('did you mean ring? Use one of ring, path', 'use one of ring, path')
    """
    names = list(known)
    close = closest(value, names)
    return (f"did you mean {prefix}{close}? Use" if close else "use") + f" one of {', '.join(names)}"


def count(number: float) -> str:
    """A number of things in a line of text, short.

    Examples
    --------
    >>> count(8_100_000), count(135_200), count(999_900), count(41)
    ('8.1 M', '135 k', '1 M', '41')
    """
    rounded = float(f"{number:.3g}")
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if rounded >= limit:
            scaled = rounded / (limit if unit != " k" else 1e3)
            return f"{scaled:.3g}{unit}" if scaled < 1000 else f"{scaled:,.0f}{unit}"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def figure(number: float) -> str:
    """A number of any size in a table, with three digits, comparable at a glance; a dash if there is none.

    Examples
    --------
    >>> figure(1234567.0), figure(999900.0), figure(0.01234), figure(41.26), figure(2e-8)
    ('1.23 M', '1 M', '0.0123', '41.3', '2e-08')
    """
    if not math.isfinite(number):
        return "–"
    rounded = float(f"{number:.3g}")
    for limit, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e5, " k")):
        if abs(rounded) >= limit:
            return f"{rounded / (1e3 if unit == ' k' else limit):.3g}{unit}"
    return f"{number:,.0f}" if abs(rounded) >= 1000 else f"{number:.3g}"


def duration(seconds: float) -> str:
    """A time span.

    Examples
    --------
    >>> duration(3.1e-7), duration(0.00012), duration(0.25), duration(2.0), duration(75), duration(7260)
    ('0.31 us', '120 us', '0.25 s', '2 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 0.1:
        return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} us"
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def show_bytes(size: float) -> str:
    """Bytes, a tenth of a megabyte at least.

    Examples
    --------
    >>> show_bytes(189_000_000), show_bytes(2.5e9), show_bytes(40_000)
    ('189 MB', '2.5 GB', '0.1 MB')
    """
    if size >= 1e9:
        return f"{size / 1e9:.3g} GB"
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{max(size / 1e6, 0.1):.2g} MB"


def plural(number: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> plural(1, "run"), plural(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def command(words: Iterable[str]) -> str:
    """A command as one types it into a shell, quoted where that is needed.

    Examples
    --------
    >>> print(command(["dtoken", "seed=1", "hydra.run.dir='my run'"]))
    dtoken seed=1 "hydra.run.dir='my run'"
    """
    return " ".join(_shell_word(word) for word in words)


def _shell_word(word: str) -> str:
    plain = "'" in word and not re.search(r'["$`\\!]', word)  # shlex would write '"'"' for each quote
    return f'"{word}"' if plain else shlex.quote(word)
