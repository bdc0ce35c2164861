"""One hue per algorithm, the same on the page, in the figures and in every report; told apart by colour-blind readers.

The colours are Okabe and Ito's, and Tol's where theirs do not suffice; each has a lighter twin for dark backgrounds.
What is swept as a number has shades from dark to light, which readers can order.
"""

from collections.abc import Sequence

from dtoken.algorithms.registry import METHODS

Pair = tuple[str, str]  # on a light, on a dark background

PALETTE: tuple[Pair, ...] = (
    ("#0072B2", "#4DA3E0"),  # blue
    ("#D55E00", "#F2803A"),  # vermilion
    ("#009E73", "#2CC79C"),  # green
    ("#CC79A7", "#E39DC6"),  # purple
    ("#333333", "#D0D4DA"),  # black
    ("#E69F00", "#F4BD3C"),  # orange
    ("#56B4E9", "#9AD8FF"),  # sky
    ("#882255", "#D3709F"),  # wine
    ("#999933", "#C9C957"),  # olive
    ("#332288", "#8F83E0"),  # indigo
)
# for values of a number: from dark to light, on a dark background dim to bright
ORDERED: tuple[Pair, ...] = (
    ("#440154", "#8C7BD8"),
    ("#414487", "#738FE2"),
    ("#2A788E", "#45A9BD"),
    ("#1F8A70", "#35C59A"),
    ("#6B8F12", "#8FD95F"),
    ("#B8860B", "#F2E14C"),
)
# How far the shades of one hue go towards black and towards white, on a light and on a dark background
DARKEST, LIGHTEST = (0.5, 0.35), (0.25, 0.3)
# Which methods have the first colours, as they always had; the other methods of the package follow by themselves.
FIRST = ("tvr", "token", "tavr", "walkman", "gd", "extra", "nids", "dvr")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
# the same in matplotlib, in units of the line's width
LINES: dict[str, str | tuple[int, tuple[float, ...]]] = {
    "solid": "-",
    "dash": (0, (4, 2)),
    "dot": (0, (1, 1.5)),
    "dashdot": (0, (4, 1.5, 1, 1.5)),
    "longdash": (0, (8, 2)),
    "longdashdot": (0, (8, 1.5, 1, 1.5)),
}


def colours(algorithms: Sequence[str]) -> dict[str, Pair]:
    """The colour of each algorithm; the user's own take those that are left.

    Examples
    --------
    >>> colours(["mine", "tvr"])["tvr"][0]
    '#0072B2'
    """
    order = [*FIRST, *(name for name in METHODS if name not in FIRST)]
    known = {name: PALETTE[order.index(name) % len(PALETTE)] for name in algorithms if name in order}
    free = [*PALETTE[len(order) :], *(pair for pair in PALETTE[: len(order)] if pair not in known.values())] or PALETTE
    own = [name for name in algorithms if name not in order]
    return known | {name: free[at % len(free)] for at, name in enumerate(own)}


def ordered(count: int) -> list[Pair]:
    """So many steps of the ordered scale.

    Examples
    --------
    >>> ordered(2) == [ORDERED[0], ORDERED[-1]]
    True
    """
    return [_between(ORDERED, share) for share in _shares(count)]


def shades(hue: Pair, count: int) -> list[Pair]:
    """So many shades of one hue, from dark to light; a single one is the hue itself.

    Examples
    --------
    >>> shades(("#0072B2", "#4DA3E0"), 1)
    [('#0072B2', '#4DA3E0')]
    >>> [light for light, _ in shades(("#0072B2", "#4DA3E0"), 2)]
    ['#003959', '#4095C5']
    """
    if count == 1:
        return [hue]
    dark = (_mix(hue[0], "#000000", DARKEST[0]), _mix(hue[1], "#000000", DARKEST[1]))
    light = (_mix(hue[0], "#FFFFFF", LIGHTEST[0]), _mix(hue[1], "#FFFFFF", LIGHTEST[1]))
    return [_between((dark, light), share) for share in _shares(count)]


def _shares(count: int) -> list[float]:
    return [at / max(1, count - 1) for at in range(count)]


def _between(steps: Sequence[Pair], share: float) -> Pair:
    place = share * (len(steps) - 1)
    low = min(int(place), len(steps) - 2)
    (one, other), (next_one, next_other) = steps[low : low + 2]
    return _mix(one, next_one, place - low), _mix(other, next_other, place - low)


def _mix(start: str, end: str, share: float) -> str:
    pairs = [(int(start[at : at + 2], 16), int(end[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(one + (other - one) * share):02X}" for one, other in pairs)
