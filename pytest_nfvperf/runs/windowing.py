"""Where the windows of a trial tell a disturbance from the DUT's own work, and where they do not."""

from __future__ import annotations

from pytest_nfvperf.model.topology.ports import PortKind
from pytest_nfvperf.runs.rig import LiveTopology

_OF_THE_KERNEL = {PortKind.AF_PACKET, PortKind.AF_XDP, PortKind.TAP}


def windows_tell_nothing(live: LiveTopology) -> bool:
    """True where the DUT's own work looks like a disturbance of it; then whole trials are judged.

    Nodes that share CPUs take turns of some milliseconds. And the kernel serves a DUT's veth pairs and packet sockets
    on the PMD's CPU before any thread: a witness comes late all the time.
    """
    kernels = bool(live.topology.veths) or any(port.kind in _OF_THE_KERNEL for port in live.topology.ports)
    return kernels or (bool(live.datapath_info.at_least) and not live.datapath_info.short_turns)
