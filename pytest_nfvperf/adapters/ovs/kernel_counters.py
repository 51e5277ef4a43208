"""What the kernel counts on the way of frames: veth pairs, namespaces' interfaces, queues, sockets. Source "kernel".

================================  =====================================================================
counter                           what it is
================================  =====================================================================
``<port>.rx_packets`` ...         of a veth link between bridges: as port statistics have it for others
``<port>.qdisc_drops``            the port's transmit queue was full (tc -s qdisc)
``<port>.socket_drops``           the socket by which OVS reads the port was full (ss -0 -m)
``<port>.far.tx_packets`` ...     the same of the pair's other end: the generator's, or a namespace's
``<port>.far.ring_drops``         the ring by which the generator reads that end was full
``<port>.far.xdp_drops``          the AF_XDP socket there took them not
``softnet.dropped``               the backlog of a CPU was full, for all interfaces of the machine
``softnet.time_squeeze``          a CPU had more to receive than its budget
================================  =====================================================================

All are absent on topologies without a kernel interface.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.net.cabling import interface_of
from pytest_nfvperf.adapters.net.interface_counters import Counters, read_interfaces, read_softnet
from pytest_nfvperf.adapters.net.packet_sockets import RingDrops
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot

SOURCE = "kernel"
OURS = Path("/proc/self/ns/net")

Interfaces = Mapping[Path, Mapping[str, str]]
"""Prefixes of counters by the names of interfaces, by the file of their namespace."""


class KernelCollector:
    """Kernel interfaces of all deployed topologies, in every namespace that one of them has an end in."""

    def __init__(self, home: Path, topologies: Callable[[], Sequence[BuiltOvsTopology]]) -> None:
        """``home``: the file of the namespace that OVS runs in."""
        self._home = home
        self._topologies = topologies
        self._rings = RingDrops()

    def snapshot(self) -> CounterSnapshot:
        """All counters now; TestbedError when a namespace is gone."""
        counters: dict[str, int] = {}
        for built in self._topologies():
            linked = {port for veth in built.topology.veths for port in (veth.port_a, veth.port_b)}
            for namespace, prefixes in self._interfaces(built).items():
                counters |= _named(_read(namespace), prefixes, linked)
                counters |= self._of_rings(prefixes) if namespace == OURS else {}
            counters |= _of_xdp(built, counters)
        if counters:
            counters |= {f"softnet.{name}": value for name, value in read_softnet().items()}
        return CounterSnapshot(SOURCE, time.monotonic_ns(), tuple(sorted(counters.items())))

    def _of_rings(self, prefixes: Mapping[str, str]) -> dict[str, int]:
        drops = self._rings.read()
        return {f"{prefix}.ring_drops": drops[name] for name, prefix in prefixes.items() if name in drops}

    def _interfaces(self, built: BuiltOvsTopology) -> Interfaces:
        near = built.kernel_interfaces()
        if not near:
            return {}
        far = {
            interface_of(one.device): f"{one.port}.far"
            for one in built.attachments()
            if one.device is not None and "iface=" in one.device and one.port in near.values()
        }
        found: dict[Path, dict[str, str]] = {self._home: dict(near)}
        found.setdefault(OURS, {}).update(far)  # OVS may run where we do
        for nic in built.topology.nics:
            place = found.setdefault(Path("/run/netns") / built.netns(nic.namespace), {})
            place[nic.name] = f"{nic.port}.far"
        return {namespace: prefixes for namespace, prefixes in found.items() if prefixes}


def _of_xdp(built: BuiltOvsTopology, counters: Mapping[str, int]) -> dict[str, int]:
    """What a veth that is read by AF_XDP drops is what it could not redirect: it hands nothing to the stack."""
    far = [f"{one.port}.far" for one in built.attachments() if str(one.device).startswith("net_af_xdp")]
    return {
        f"{prefix}.xdp_drops": counters[f"{prefix}.rx_dropped"] for prefix in far if f"{prefix}.rx_dropped" in counters
    }


def _read(namespace: Path) -> Counters:
    if namespace == OURS:
        return read_interfaces()
    try:
        return inside(namespace, read_interfaces)
    except OSError as error:
        raise TestbedError(f"no counters of the interfaces in {namespace}: {error}") from error


def _named(counters: Counters, prefixes: Mapping[str, str], linked: set[str]) -> dict[str, int]:
    """A port that OpenFlow's statistics have already needs only what they lack."""
    return {
        f"{prefix}.{name}": value
        for interface, prefix in prefixes.items()
        for name, value in counters.get(interface, {}).items()
        if prefix in linked or prefix.endswith(".far") or name.endswith("_drops")
    }
