"""How namespaces' interfaces are made: a table of makers by kind.

=============  ====================================  ============================================
kind           in OVS                                the interface in the namespace
=============  ====================================  ============================================
``veth``       one end, in the instance's namespace  the other end
``af_xdp``     the same, read by AF_XDP              the other end
``internal``   ``internal``, moved out               the same interface
``tap``        ``tap``, moved out                    the same interface
``vduse``      ``dpdkvhostuserclient``               a virtio interface, by a device that OVS serves
=============  ====================================  ============================================

A third party adds kinds of its own, with a colon in their names, by the hook ``pytest_nfvperf_nic_makers``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from pytest_nfvperf.adapters.host.nic import lacks_af_xdp
from pytest_nfvperf.adapters.net.ends import End, Moved, Pair
from pytest_nfvperf.adapters.net.topology_pairs import nic_pair
from pytest_nfvperf.adapters.net.vduse import DEVICES, lacks_vduse
from pytest_nfvperf.adapters.ovs.instance.private_ovs import InstanceOptions
from pytest_nfvperf.adapters.ovs.topology.ovs_port import OvsPort, by_af_xdp, refuse_kernel, unusual
from pytest_nfvperf.model.errors import ConfigError, UnavailableError
from pytest_nfvperf.model.near import listed
from pytest_nfvperf.model.topology.ports import Nic, NicKind, Offloads

_FIRST_WITH_VDUSE = (23, 11)
"""DPDK's release notes, 23.11: vhost."""


@dataclass(frozen=True, slots=True)
class Making:
    """What a maker works with.

    Attributes:
        interface_types: that OVS was built with (ovs-vswitchd.conf.db(5), iface_types).
        home: file of OVS's network namespace.
        inside: file of the interface's namespace.
        pairs: a maker appends veth pairs, which are made before OVS takes its ports.
        moved: a maker appends interfaces that OVS makes and that are moved out afterwards.
        dpdk_version: None where OVS runs without DPDK.
        device_name: returns a name that no other device of the machine has.
        devices: a maker appends VDUSE devices, which OVS makes and which become interfaces afterwards.
    """

    options: InstanceOptions
    interface_types: Sequence[str]
    home: Path
    inside: Path
    pairs: list[Pair]
    moved: list[Moved]
    dpdk_version: str | None
    device_name: Callable[[], str]
    devices: list[Moved]


NicMaker: TypeAlias = Callable[[Nic, Making], OvsPort]
"""Says how OVS is told of an interface's port, and what is to be made in the kernel.

Raises ConfigError for an interface that cannot be on this datapath, and UnavailableError with what the machine
lacks: the test is skipped then, with that reason.
"""


def maker_of(nic: Nic, makers: Mapping[str, NicMaker]) -> NicMaker:
    """The maker of an interface's kind; ConfigError that lists the kinds there are."""
    found = makers.get(nic.kind)
    if found is None:
        raise ConfigError(
            f"{_called(nic)} is of kind {nic.kind!r}, which nobody makes: give its maker by the hook "
            f"pytest_nfvperf_nic_makers. There are {listed(makers)}"
        )
    return found


def with_makers(added: Sequence[Mapping[str, NicMaker]]) -> Mapping[str, NicMaker]:
    """The table with third parties' makers; ConfigError for a name without a colon or with two makers."""
    table = dict(NIC_MAKERS)
    for name, maker in (pair for makers in added for pair in makers.items()):
        if ":" not in name or name in table:
            why = "has no colon in it" if ":" not in name else "has two makers"
            raise ConfigError(
                f"pytest_nfvperf_nic_makers: kind {name!r} {why}: call it by your name, such as 'acme:macvtap'"
            )
        table[name] = maker
    return MappingProxyType(table)


def _veth(nic: Nic, making: Making) -> OvsPort:
    making.pairs.append(nic_pair(nic, making.home, making.inside, _offloads(nic, making.options)))
    return OvsPort(nic.port, nic.bridge, nic.port, "system", vlan=nic.vlan)


def _af_xdp(nic: Nic, making: Making) -> OvsPort:
    lacking = lacks_af_xdp()
    if lacking is not None:
        raise UnavailableError(f"{_called(nic)} is AF_XDP: {lacking}")
    return by_af_xdp(_veth(nic, making), _called(nic), making.interface_types, dpdk=making.options.dpdk)


def _internal(nic: Nic, making: Making) -> OvsPort:
    # A tap has no checksum offload but where OVS says so (userspace TSO): it is right without our doing.
    making.moved.append(Moved(nic.port, End(nic.name, making.inside, nic.mac, nic.addresses, nic.offloads), nic.mtu))
    return OvsPort(nic.port, nic.bridge, nic.port, nic.kind, {}, unusual(nic.mtu), nic.vlan, has_link=False)


def _tap(nic: Nic, making: Making) -> OvsPort:
    refuse_kernel(_called(nic), making.options)
    return _internal(nic, making)


def _vduse(nic: Nic, making: Making) -> OvsPort:
    """OVS, by DPDK's vhost library, serves a virtio device whose driver is this machine's kernel."""
    if making.dpdk_version is None:
        raise ConfigError(f"{_called(nic)} is by VDUSE, which OVS serves with DPDK: use Dut('dpdk')")
    lacking = lacks_vduse() or _lacks_vduse_in(making.dpdk_version)
    if lacking is not None:
        raise UnavailableError(f"{_called(nic)} is by VDUSE: {lacking}")
    device = making.device_name()
    end = End(nic.name, making.inside, nic.mac, nic.addresses, _offloads(nic, making.options))
    making.devices.append(Moved(device, end, nic.mtu))
    options = {"vhost-server-path": str(DEVICES / device)}
    return OvsPort(nic.port, nic.bridge, nic.port, "dpdkvhostuserclient", options, unusual(nic.mtu), nic.vlan)


def _lacks_vduse_in(dpdk_version: str) -> str | None:
    """An older one would take the path for that of a socket, and wait for somebody to listen on it."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", dpdk_version)[:2])
    if numbers >= _FIRST_WITH_VDUSE:
        return None
    return (
        f"DPDK {dpdk_version} has none, 23.11 is the first: `nfvperf ovs add debian:trixie`, then --nfv-ovs "
        "debian:trixie"
    )


def _called(nic: Nic) -> str:
    return f"interface {nic.name!r} of namespace {nic.namespace!r}"


def _offloads(nic: Nic, options: InstanceOptions) -> Offloads:
    """What a Nic's offloads must be on this datapath.

    Userspace reads a frame as the sending kernel left it. Without userspace TSO it takes no notice that
    the checksum is still to be filled in (tx checksum offload), and whoever gets the frame drops it.
    """
    if options.datapath_type != "netdev" or options.userspace_tso:
        return nic.offloads
    if nic.offloads.tx_checksum or nic.offloads.tso:
        raise ConfigError(
            f"{_called(nic)}: tx checksum offload, and so TSO, must be off "
            "on OVS's userspace datapath unless it has userspace TSO: use Dut(userspace_tso=True)"
        )
    return replace(nic.offloads, tx_checksum=False)


NIC_MAKERS: Mapping[str, NicMaker] = MappingProxyType(
    {
        NicKind.VETH: _veth,
        NicKind.INTERNAL: _internal,
        NicKind.TAP: _tap,
        NicKind.AF_XDP: _af_xdp,
        NicKind.VDUSE: _vduse,
    }
)
"""The makers of this project's own interfaces, by kind."""
