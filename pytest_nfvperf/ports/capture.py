"""What receives a mirror's copies outside the generator: a socket of the host, or a vendor's capture interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Captured:
    """What was received between start and stop.

    Attributes:
        frames: how many.
        lost: counted as lost by the receiver itself; None where it does not count them.
        samples: whole frames, without FCS; the first ones, where not all were kept.
    """

    frames: int
    lost: int | None
    samples: tuple[bytes, ...]


class Capture(Protocol):
    """A receiver. TestbedError when it cannot receive."""

    def start(self) -> None:
        """Receive from now on."""
        ...

    def stop(self) -> Captured:
        """Take what has arrived, and end; to be called once for each start."""
        ...

    def close(self) -> None:
        """End, whatever has arrived. Can be called twice."""
        ...
