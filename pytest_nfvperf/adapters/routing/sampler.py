"""Routing sessions seen once a second while a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.bgp import BfdStatus
from pytest_nfvperf.ports.bgp import BgpSpeaker
from pytest_nfvperf.ports.sampler import Reading


class SessionSampler:
    """Fulfils ports.sampler.Sampler: for each neighbour ``.up``, ``.flaps`` and prefixes, and ``.up`` of its BFD.

    Args:
        speaker: whose sessions.
        neighbors: by their addresses; all that are configured if not given.
    """

    name = "bgp"

    def __init__(self, speaker: BgpSpeaker, neighbors: Sequence[str] = ()) -> None:
        self._speaker = speaker
        self._neighbors = tuple(neighbors) or tuple(peer.address for peer in speaker.config.neighbors)

    def read(self) -> Reading:
        """What the daemon says now; TestbedError when it died or does not answer."""
        counters: dict[str, int] = {}
        gauges: dict[str, float] = {}
        for neighbor in self._neighbors:
            state = self._speaker.session(neighbor)
            gauges[f"bgp.{neighbor}.up"] = float(state.established)
            if state.flaps is not None:
                counters[f"bgp.{neighbor}.flaps"] = state.flaps
            if state.received is not None:
                gauges[f"bgp.{neighbor}.prefixes"] = float(state.received)
            if state.bfd is not None:
                gauges[f"bfd.{neighbor}.up"] = float(state.bfd is BfdStatus.UP)
        return Reading(counters, gauges)
