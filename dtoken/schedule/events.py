"""Events: what a method is made of, as arrays.

=======  =====================================================================
local    node i uses its sample j, or all its data (j = -1)
visit    token k arrives at node i and mixes with it (j >= 0: and uses sample j)
meet     tokens k and l mix, at the node of k; if l is elsewhere, it comes and goes back
move     token k passes through node i without mixing (the skip variant)
load     node i writes a message into token k, which costs nothing
deliver  token k brings its message to node i, at the same time as to others
die      token k is lost, or ended, at node i (after a move: on the way there)
fork     token l begins at node i as a copy of token k, which is there
=======  =====================================================================

Token methods consist of the first four, methods with rounds of messages also of load and deliver: there a token is a
message that a node sends to several others at once, token k that of node k, and the order of deliveries only fixes the
order of sums. Tokens die and fork where `schedule.failures` says so.

A schedule does not know the data. It says which node takes a step and gives it a uniform number; the host of the
node turns the number into one of its samples (``schedule.samples``).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LOCAL, VISIT, MEET, MOVE, LOAD, DELIVER, DIE, FORK = range(8)
KINDS = ("local", "visit", "meet", "move", "load", "deliver", "die", "fork")
NONE = -1
NO_SAMPLE = -1.0  # as a draw
GIVEN = -2.0  # GIVEN - j as a draw: sample j itself
LOADING = -2  # as a row: the token is loaded, not delivered


class Events(NamedTuple):
    """Consecutive events, one column per array; entries that do not apply are -1."""

    kind: NDArray[np.int8]
    node: NDArray[np.int32]  # where it happens (meet: where token k is)
    source: NDArray[np.int32]  # from where the token comes (visit, move, deliver; meet: the second token)
    token: NDArray[np.int32]
    other: NDArray[np.int32]  # second token of a meet, new token of a fork
    draw: NDArray[np.float64]  # in [0, 1): decides the sample; else NO_SAMPLE or GIVEN - j
    at: NDArray[np.float64]  # time of the event on the method's own clock

    @property
    def size(self) -> int:
        """Number of events."""
        return len(self.kind)

    def between(self, start: int, stop: int) -> "Events":
        """The events from number ``start`` to before ``stop``, as views."""
        return Events(
            kind=self.kind[start:stop],
            node=self.node[start:stop],
            source=self.source[start:stop],
            token=self.token[start:stop],
            other=self.other[start:stop],
            draw=self.draw[start:stop],
            at=self.at[start:stop],
        )


def no_events() -> Events:
    """An empty sequence of events."""
    none, no_time = np.empty(0, np.int32), np.empty(0)
    return Events(kind=np.empty(0, np.int8), node=none, source=none, token=none, other=none, draw=no_time, at=no_time)


def concatenate(parts: Sequence[Events]) -> Events:
    """One sequence of events after the other."""
    if len(parts) == 1:
        return parts[0]
    return Events(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
