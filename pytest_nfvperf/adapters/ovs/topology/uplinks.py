"""The ends of underlays: a link from one private OVS to another.

========= ======================================================== ===============================================
datapath  in OVS                                                   the link
========= ======================================================== ===============================================
dpdk      ``dpdkvhostuserclient`` and ``dpdk`` (net_virtio_user)   a virtio ring in memory of both; PMDs poll it
netdev    one end of a veth pair each                              the pair, from one namespace to the other
system    one end of a veth pair each                              the pair; both nodes' kernel datapaths forward
two kinds one end of a veth pair each                              the pair; with DPDK, too, the main thread reads it
any       the lab's port                                           a cable: see ``lab_ports``
========= ======================================================== ===============================================

Each end is made by its own node. With DPDK the end that is built second listens, and the first connects to it; a veth
pair is made by the first, and the second finds it there.

DPDK's net_memif was tried: its two ends refuse each other ("Invalid ring index") where OVS has more transmit than
receive queues, which it always has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_nfvperf.adapters.net.ends import End, Pair
from pytest_nfvperf.adapters.ovs.topology.ovs_port import OvsPort, unusual
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd
from pytest_nfvperf.model.topology.ports import Port

_RING = 4096
"""Frames: the most that OVS gives a port (NIC_PORT_MAX_RXQ_SIZE). A node that shares its CPU may not read for
milliseconds."""

_DEVARGS_BYTES = 127
"""That DPDK's ``rte_dev_probe`` takes, which OVS calls; since 24.11.8 it refuses more."""


@dataclass(frozen=True, slots=True)
class UplinkEnd:
    """One end of an underlay.

    Attributes:
        first: it is made before the other end.
        ring: both nodes have DPDK, so a ring joins them; else a veth pair does.
        socket: where DPDK's ends meet.
        far_port, far_home: name and network namespace of the other end, for a veth pair.
        far_pid: of the other end's vswitchd.
    """

    first: bool
    ring: bool
    socket: Path
    far_port: str
    far_home: Path
    far_pid: int


@dataclass(frozen=True, slots=True)
class Uplinks:
    """The underlays' ends of one node, by the names of its ports: virtual ones, and those of cables."""

    ends: Mapping[str, UplinkEnd] = field(default_factory=dict)
    cabled: Mapping[str, CabledEnd] = field(default_factory=dict)

    def has_veth(self) -> bool:
        """True where the node's main thread reads an underlay."""
        return any(not end.ring for end in self.ends.values())

    def wire(self, port: Port, home: Path, pairs: list[Pair], queues: int) -> OvsPort:
        """The port for OVS; appends the veth pair that it needs to ``pairs``. ``queues``: of a ring, each direction."""
        return self._ring(port, queues) if self.ends[port.name].ring else self._veth(port, home, pairs)

    def _ring(self, port: Port, queues: int) -> OvsPort:
        """An end that PMDs poll. The vhost-user end tells at once when both are there; the other is asked every 5 s."""
        end = self.ends[port.name]
        mtu = unusual(port.mtu)
        if end.first:
            table = Path(f"/proc/{end.far_pid}/net/unix")
            client = OvsPort(port.name, port.bridge, port.name, "dpdkvhostuserclient", mtu_request=mtu)
            return replace(client, socket=end.socket, socket_table=table)
        device = (
            f"net_virtio_user_{port.name},path={end.socket},server=1,queues={queues},queue_size={_RING},packed_vq=1"
        )
        if len(device) > _DEVARGS_BYTES:
            raise ConfigError(
                f"the socket {end.socket} of {port.name} is too long for DPDK, which takes {_DEVARGS_BYTES} bytes of "
                f"devargs ({device} has {len(device)}); set NFVPERF_RUN_DIR to a shorter directory, or give the port "
                "a shorter name"
            )
        options = {"dpdk-devargs": device, "n_rxq_desc": str(_RING), "n_txq_desc": str(_RING)}
        return OvsPort(port.name, port.bridge, port.name, "dpdk", options, mtu, has_link=False)

    def _veth(self, port: Port, home: Path, pairs: list[Pair]) -> OvsPort:
        """An end of a veth pair, which the first of the two makes."""
        end = self.ends[port.name]
        if end.first:
            pairs.append(Pair(End(port.name, home), End(end.far_port, end.far_home), port.mtu))
        return OvsPort(port.name, port.bridge, port.name, "system")
