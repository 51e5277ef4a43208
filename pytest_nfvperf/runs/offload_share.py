"""Where flows were handled, asked right after a measurement on a testbed that wants them in hardware."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_nfvperf.model.measure.offloading import OffloadShare
from pytest_nfvperf.ports.datapath import Offloading
from pytest_nfvperf.runs.rig import LiveTopology


def share_after(live: LiveTopology, labels: Mapping[str, str]) -> OffloadShare | None:
    """The flows of the datapath now: OVS forgets idle ones after 10 s.

    None where the testbed asks for no hardware offload (label ``offload``), or nobody can say.
    """
    built = live.deployment.built
    if labels.get("offload") != "on" or not isinstance(built, Offloading):
        return None
    return built.offload_share()
