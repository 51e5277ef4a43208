"""Events: what is done to a DUT while frames flow.

A function that makes one takes the live topology it happens on, and refuses before anything is measured what this DUT
cannot do. Its name is the event's name in tables and records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.model.arguments import Name, checked, number

EVENT_AT_S = 0.5
"""When an event of an outage happens, seconds after the trial begins to send: by then the rate is known."""


@checked()
@dataclass(frozen=True, slots=True)
class Event:
    """An event during a trial.

    Attributes:
        name: of tables and records.
        at_s: seconds after the trial begins to send.
        act: causes it, and returns when the DUT has taken it.
        undo: called after the trial, so that the same can happen again; None where nothing is to be undone.
    """

    name: Name
    at_s: Annotated[float, number(0)]
    act: Callable[[], object]
    undo: Callable[[], object] | None = None


EventMaker = Callable[[LiveTopology], Event]
"""Makes an event on a live topology. UnavailableError where this DUT cannot do it, ArgumentError for a mistake."""
