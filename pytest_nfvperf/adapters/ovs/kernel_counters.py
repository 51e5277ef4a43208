"""The kernel's counters of veth pairs, namespaces' interfaces, queues and sockets. Source "kernel".

================================  =====================================================================
counter                           meaning
================================  =====================================================================
``<port>.rx_packets`` ...         port statistics of a veth link between bridges
``<port>.qdisc_drops``            the port's transmit queue was full (tc -s qdisc)
``<port>.socket_drops``           the socket by which OVS reads the port was full (ss -0 -m)
``<port>.far.tx_packets`` ...     the same for the pair's other end: the generator's, or a namespace's
``<port>.far.ring_drops``         the ring by which the generator reads that end was full
``<port>.far.xdp_drops``          the AF_XDP socket there had no room
``softnet.dropped``               the backlog of a CPU was full, for all interfaces of the machine
``softnet.time_squeeze``          a CPU had more to receive than its budget
================================  =====================================================================

All are absent on topologies without a kernel interface.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.net.cabling import interface_of
from pytest_nfvperf.adapters.net.ends import OWN_NAMESPACE
from pytest_nfvperf.adapters.net.interface_counters import read_interfaces, read_softnet
from pytest_nfvperf.adapters.net.packet_sockets import RingDrops
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.ports.datapath import Collector

_SOURCE = "kernel"


class KernelCollector(Collector):
    """Counters of all deployed topologies' kernel interfaces, in every namespace where one has an end."""

    source = _SOURCE

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
                try:
                    counted = read_interfaces() if namespace == OWN_NAMESPACE else inside(namespace, read_interfaces)
                except OSError as error:
                    raise TestbedError(f"no counters of the interfaces in {namespace}: {error}") from error
                counters |= {
                    f"{prefix}.{name}": value
                    for interface, prefix in prefixes.items()
                    for name, value in counted.get(interface, {}).items()
                    # OpenFlow's statistics have the other ports already, except for their drops.
                    if prefix in linked or prefix.endswith(".far") or name.endswith("_drops")
                }
                if namespace == OWN_NAMESPACE:
                    drops = self._rings.read()
                    counters |= {
                        f"{prefix}.ring_drops": drops[name] for name, prefix in prefixes.items() if name in drops
                    }
            for port, device in built.attachments().items():
                dropped = f"{port}.far.rx_dropped"
                # A veth read by AF_XDP hands nothing to the stack: it drops only what it could not redirect.
                if str(device).startswith("net_af_xdp") and dropped in counters:
                    counters[f"{port}.far.xdp_drops"] = counters[dropped]
        if counters:
            counters |= {f"softnet.{name}": value for name, value in read_softnet().items()}
        return CounterSnapshot(self.source, time.monotonic_ns(), tuple(sorted(counters.items())))

    def _interfaces(self, built: BuiltOvsTopology) -> Mapping[Path, Mapping[str, str]]:
        """Prefixes of counters by interface, by the file of the namespace."""
        local = built.kernel_interfaces()
        if not local:
            return {}
        far = {
            interface_of(device): f"{port}.far"
            for port, device in built.attachments().items()
            if device is not None and "iface=" in device and port in local.values()
        }
        prefixes: defaultdict[Path, dict[str, str]] = defaultdict(dict, {self._home: dict(local)})
        prefixes[OWN_NAMESPACE].update(far)  # OVS may run in our own namespace
        for nic in built.topology.nics:
            prefixes[Path("/run/netns") / built.netns(nic.namespace)][nic.name] = f"{nic.port}.far"
        return {namespace: own for namespace, own in prefixes.items() if own}
