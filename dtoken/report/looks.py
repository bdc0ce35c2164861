"""How curves are told apart: colour and kind of line follow what was swept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dtoken.session.colours import DASHES, PALETTE, Pair, colours, ordered, shades

Setting = tuple[str, Any]
Variant = tuple[str, tuple[Setting, ...]]  # an algorithm, and its settings that were swept


@dataclass(frozen=True)
class Look:
    """Colour and kind of line of a curve."""

    colour: Pair
    dash: str


def is_number(value: Any) -> bool:
    """Whether a setting is a number; whether something is on or off is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_looks(values: Sequence[Any]) -> list[Look]:
    """Looks of the values of one setting, in their order: numbers have shades, and all have lines of their own."""
    numeric = len(values) > 1 and all(value is None or is_number(value) for value in values)
    scale = ordered(len(values)) if numeric else PALETTE
    return [Look(scale[at % len(scale)], DASHES[at % len(DASHES)]) for at in range(len(values))]


def variant_looks(variants: Sequence[Variant]) -> dict[Variant, Look]:
    """Looks of methods: a hue per algorithm, shades and lines for its settings.

    The first setting that was swept has the shades; lines tell the others apart, or the first one if it is alone, or
    where no setting was swept the algorithms. A single algorithm needs no hue: a number has the whole ordered scale
    then, and names have colours.
    """
    hues = colours(list(dict.fromkeys(algorithm for algorithm, _ in variants)))
    found: dict[Variant, Look] = {}
    plain = not any(settings for _, settings in variants)
    for number, (algorithm, hue) in enumerate(hues.items()):
        mine = [settings for name, settings in variants if name == algorithm]
        firsts = _in_order([settings[0][1] for settings in mine if settings])
        rests = list(dict.fromkeys(settings[1:] for settings in mine))
        alone = value_looks(firsts) if len(hues) == 1 and len(firsts) > 1 else None
        scale = [look.colour for look in alone] if alone else shades(hue, max(1, len(firsts)))
        for settings in mine:
            first = firsts.index(settings[0][1]) if settings else 0
            line = number if plain else rests.index(settings[1:]) if len(rests) > 1 else first
            found[algorithm, settings] = Look(scale[first], DASHES[line % len(DASHES)])
    return found


def _in_order(values: Sequence[Any]) -> list[Any]:
    """Each value once; numbers by size, behind what is not there."""
    unique = list(dict.fromkeys(values))
    numbers = [value for value in unique if is_number(value)]
    others = [value for value in unique if not is_number(value)]
    return [*others, *sorted(numbers)] if all(value is None for value in others) else unique


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the settings that are not the same in all of these."""
    names = dict.fromkeys(name for each in settings for name in each)
    return [name for name in names if len({each.get(name) for each in settings}) > 1]
