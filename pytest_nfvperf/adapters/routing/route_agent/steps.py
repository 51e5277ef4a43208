"""The steps between a speaker's being told of a route and the bridge's having its flow, each with its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pytest_nfvperf.adapters.routing.route_agent.follower import Followed
from pytest_nfvperf.adapters.routing.route_agent.updates import Update, UpdateWatch

SENT, RECEIVED, ROUTED, FLOW = "sent", "received", "routed", "flow"
"""The UPDATE left the neighbour; it came to FRR; the agent read it from the kernel's table; the bridge had the flow."""


@dataclass
class StepWatch:
    """Watches from when it was made to ``close``.

    Args:
        sender, receiver: see UPDATE messages at the neighbour's interface, and at FRR's.
        followed: the agent's last changes.
    """

    sender: UpdateWatch
    receiver: UpdateWatch
    followed: Callable[[], Sequence[Followed]]
    _sent: list[Update] = field(default_factory=list)
    _received: list[Update] = field(default_factory=list)

    def since(self, began_ns: int, prefix: str, *, gone: bool) -> Mapping[str, float]:
        """Seconds from ``began_ns`` (CLOCK_MONOTONIC) to each step of the first change after it that was seen."""
        self._sent += self.sender.read()
        self._received += self.receiver.read()
        changes = [one for one in self.followed() if prefix in (one.removed if gone else one.added)]
        times = {
            SENT: _first(began_ns, _of_prefix(self._sent, prefix, gone=gone)),
            RECEIVED: _first(began_ns, _of_prefix(self._received, prefix, gone=gone)),
            ROUTED: _first(began_ns, (one.read_ns for one in changes)),
            FLOW: _first(began_ns, (one.done_ns for one in changes)),
        }
        return {step: (at_ns - began_ns) / 1e9 for step, at_ns in times.items() if at_ns is not None}

    def close(self) -> None:
        """Watch no longer."""
        with ExitStack() as stack:
            stack.callback(self.sender.close)
            stack.callback(self.receiver.close)


def _of_prefix(updates: Iterable[Update], prefix: str, *, gone: bool) -> Iterable[int]:
    return (one.at_ns for one in updates if prefix in (one.withdrawn if gone else one.announced))


def _first(after_ns: int, times_ns: Iterable[int]) -> int | None:
    return min((at_ns for at_ns in times_ns if at_ns >= after_ns), default=None)
