"""Routing sessions seen once a second while a soak runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.routing.bgp import BfdStatus
from pytest_nfvperf.ports.datapath import SamplerReading
from pytest_nfvperf.ports.routing import BgpSpeaker


class SessionSampler:
    """Fulfils ports.datapath.Sampler: for each neighbour ``.up``, ``.flaps`` and prefixes, and ``.up`` of its BFD.

    A daemon that died or is stopped has no session: that is a reading, while one that does not answer gives none.

    Args:
        speaker: gives the one whose sessions they are: it is another one when a topology was built again meanwhile.
        neighbors: by their addresses; all that are configured if not given.
        of: before all names, where several speakers are sampled: ``dut.bgp.12.12.12.2.up``.
    """

    def __init__(self, speaker: Callable[[], BgpSpeaker], neighbors: Sequence[str] = (), of: str = "") -> None:
        self.name = f"bgp of {of}" if of else "bgp"
        self._of = f"{of}." if of else ""
        self._speaker = speaker
        self._neighbors = tuple(neighbors)

    def read(self) -> SamplerReading:
        """What the daemon says now; TestbedError when it does not answer."""
        speaker = self._speaker()
        neighbors = self._neighbors or tuple(peer.address for peer in speaker.config.neighbors)
        try:
            speaker.check()
        except TestbedError:
            return SamplerReading(gauges={f"{self._of}bgp.{neighbor}.up": 0.0 for neighbor in neighbors})
        counters: dict[str, int] = {}
        gauges: dict[str, float] = {}
        for neighbor in neighbors:
            state = speaker.session(neighbor)
            session = f"{self._of}bgp.{neighbor}"
            gauges[f"{session}.up"] = float(state.established)
            if state.flaps is not None:
                counters[f"{session}.flaps"] = state.flaps
            if state.received is not None:
                gauges[f"{session}.prefixes"] = float(state.received)
            if state.bfd is not None:
                gauges[f"{self._of}bfd.{neighbor}.up"] = float(state.bfd is BfdStatus.UP)
        return SamplerReading(counters, gauges)
