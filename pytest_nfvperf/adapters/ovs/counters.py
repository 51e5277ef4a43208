"""Counters of a trial on OVS: its ports, PMD threads and drop reasons, and those of kernel interfaces."""

from __future__ import annotations

import ipaddress
import re
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.host.cpu_account import process_cpu_ns, still_there
from pytest_nfvperf.adapters.net.cabling import interface_of
from pytest_nfvperf.adapters.net.ends import OWN_NAMESPACE
from pytest_nfvperf.adapters.net.interface_counters import read_interfaces, read_softnet
from pytest_nfvperf.adapters.net.packet_sockets import RingDrops
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.offload import FlowCounter
from pytest_nfvperf.adapters.ovs.openflow import OpenFlowConnection, OpenFlowRefusedError, connected
from pytest_nfvperf.adapters.ovs.ovsdb import RefusedError
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs
from pytest_nfvperf.adapters.process.process import read_schedstat
from pytest_nfvperf.model.errors import TestbedError, UnavailableError
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.topology.topology import Topology, all_ports
from pytest_nfvperf.ports.datapath import Collector

# Counters that give the reason of a drop, and the versions of OVS that have them.
#
# From OVS's sources, branches 2.15 to 4.0: ``lib/netdev-dpdk.c`` (SW_CSTATS), ``lib/dpif-netdev.c``,
# ``lib/odp-execute.c`` and ``ofproto/ofproto-dpif-xlate.c`` (COVERAGE_DEFINE). docs/reference/drop-ledger.md has them
# as a table.

FIRST, LAST = "2.15", "4.0"
"""The range of versions of this table."""

DROP_PREFIXES = ("coverage.datapath_drop_", "coverage.drop_action_")
"""Prefixes of drop counters in a snapshot, for every version."""

UPCALL_DROPS = ("datapath_drop_upcall_error", "datapath_drop_lock_error")
"""A PMD counts these frames as failed upcalls at once, and coverage counts them a second later."""

MOST_FLOWS = 1000
"""Flows of a bridge with more are not listed: that would take longer than a snapshot may."""

_COVERAGE = re.compile(r"^(\w+)\s.*\btotal:\s*(\d+)\s*$")
_SETTLE_S, _SETTLE_POLL_S = 1.1, 0.1
_MOST_BRIDGES = 16

# Multipart requests, as OpenFlowConnection.ask takes them, and the structures in their answers (OpenFlow 1.4, 7.3.5).
_TABLES = (3, b"")
_TABLE = struct.Struct("!B3xIQQ")  # table, active flows, lookups, matches
ALL_FLOWS = struct.pack("!B3xII4xQQHH4x", 0xFF, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0, 1, 4)
"""Of every table, port and group, with any cookie and match."""

_FLOWS = (1, ALL_FLOWS)
_FLOW = struct.Struct("!HBxIIHHHHH2xQQQ")  # length, table, age s and ns, priority, ..., cookie, packets, bytes
_AGGREGATE = (2, ALL_FLOWS)
_METERS = (9, struct.pack("!I4x", 0xFFFFFFFF))
_METER = struct.Struct("!IH6xIQQII")  # meter, length, flows, packets in, bytes in, age s and ns
_BAND = struct.Struct("!QQ")  # packets, bytes
_TYPE_LENGTH = struct.Struct("!HH")
_GOTO, _WRITE, _APPLY = 1, 3, 4
_INSTRUCTION_HEADER_BYTES = 8
_OXM = struct.Struct("!HBB")  # class, field and mask bit, length
_BASIC = 0x8000
_CT_STATE, _CT_FLAGS = (1, 105), ("new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat")
_FIELDS = {
    0: "in_port", 3: "eth_dst", 4: "eth_src", 5: "eth_type", 6: "vlan_vid", 10: "ip_proto", 11: "ipv4_src",
    12: "ipv4_dst", 13: "tcp_src", 14: "tcp_dst", 15: "udp_src", 16: "udp_dst",
}  # fmt: skip

_THREAD = re.compile(r"^(?:pmd thread numa_id \d+ core_id (?P<core>\d+)|(?P<main>main thread)):?$")
_COUNT = re.compile(r"^-?\s*(?P<name>[A-Za-z][A-Za-z ]*?):\s+(?P<count>\d+)(?:\s|$)")
_HITS = {
    name: name.replace(" ", "_")
    for name in ("phwol hits", "mfex opt hits", "simple match hits", "emc hits", "smc hits", "megaflow hits")
}
_STATS_NAMES = _HITS | {
    "packets received": "packets_received",
    "packet recirculations": "recirculations",
    "miss with success upcall": "upcalls_ok",
    "miss with failed upcall": "upcalls_failed",
    "idle cycles": "cycles_idle",
    "processing cycles": "cycles_busy",
}
_PERF_NAMES = _HITS | {
    "rx packets": "packets_received",
    "tx packets": "tx_packets",
    "upcalls": "upcalls_ok",
    "lost upcalls": "upcalls_failed",
    "used tsc cycles": "cycles_used",
    "iterations": "iterations",
}

LOOKUP_ENDS = (
    "phwol_hits", "simple_match_hits", "emc_hits", "smc_hits", "megaflow_hits", "upcalls_ok", "upcalls_failed",
)  # fmt: skip
"""The ends of a lookup, as far as a version has them. Their sum is the packets received and recirculated.

``mfex_opt_hits`` is not one of them: it counts headers that an optimised function parsed.
"""

_LOOKUPS = ("emc_hits", "smc_hits", "megaflow_hits", "upcalls_ok", "upcalls_failed")
"""``pmd-perf-show`` lists these only for a thread that has received frames; for other threads they are 0."""

PORT_STATS = (4, struct.pack("!I4x", 0xFFFFFFFF))
"""OFPMP_PORT_STATS (7.3.5.6) makes vswitchd read a bridge's ports at once. Its answer carries OVS's custom counters
(``ovs_tx_failure_drops``, ...) in an experimenter property. The OVSDB's ``statistics`` column is refreshed every 5 s at
best, and ``dpctl/show`` lacks the reasons of drops."""

_STATS = struct.Struct("!HxxIII8Q")  # length, port, duration s and ns, the counters
_STANDARD = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors")
_EXPERIMENTER = struct.Struct("!HHII")  # ..., experimenter, type
_EXPERIMENTER_TYPE = 0xFFFF
_INTEL, _CUSTOM = 0x0000AA01, 2
_CUSTOM_HEADER_BYTES = 16
_UNKNOWN = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class DropReason:
    """A counter of drops. ``since`` and ``until``: the first and last version that has it, within 2.15 to 4.0."""

    name: str
    meaning: str
    since: str = FIRST
    until: str = LAST


PORT_REASONS = (
    DropReason("ovs_tx_failure_drops", "the ring at the far end was full, or there was no buffer"),
    DropReason("ovs_tx_mtu_exceeded_drops", "longer than the port's MTU"),
    DropReason("ovs_tx_qos_drops", "above the port's egress policer"),
    DropReason("ovs_tx_invalid_hwol_drops", "offloads that the port cannot do"),
    DropReason("ovs_rx_qos_drops", "above the port's ingress policer"),
    DropReason("rx_missed_errors", "the NIC's receive ring was full: OVS did not drain it in time"),
    DropReason("rx_mbuf_allocation_errors", "OVS had no buffer for the frame; some drivers count each attempt"),
)
"""Reasons that DPDK's ports count, in OpenFlow's port statistics.

``rx_dropped`` holds all three that begin with rx or ovs_rx, in every version: netdev_dpdk_get_stats() adds
``rx_nombuf + imissed`` to what the policer dropped, and its custom counters name each (``lib/netdev-dpdk.c``, branches
2.15 to 4.0, read line by line). vhost-user ports have no NIC, and neither counter.
"""

DATAPATH_REASONS = (
    DropReason(
        "datapath_drop_upcall_error",
        "the upcall for a frame without a flow failed, as for one out of a tunnel whose key (VNI) no port has",
    ),
    DropReason("datapath_drop_lock_error", "no upcall was possible: flows were being purged"),
    DropReason("datapath_drop_rx_invalid_packet", "the frame could not be parsed"),
    DropReason("datapath_drop_userspace_action_error", "an upcall asked for by an action failed"),
    DropReason("datapath_drop_tunnel_push_error", "encapsulation failed"),
    DropReason("datapath_drop_tunnel_pop_error", "decapsulation failed"),
    DropReason("datapath_drop_tunnel_tso_recirc", "a TSO frame would have been encapsulated twice", "3.3", "3.4"),
    DropReason("datapath_drop_recirc_error", "recirculated too often"),
    DropReason("datapath_drop_invalid_port", "output to a port that is gone"),
    DropReason("datapath_drop_invalid_bond", "output to a bond that is gone"),
    DropReason("datapath_drop_invalid_tnl_port", "output to a tunnel port that is gone"),
    DropReason("datapath_drop_meter", "above a meter's rate"),
    DropReason(
        "datapath_drop_hw_miss_recover", "a frame that the NIC had begun on could not be restored", "2.16", "3.6"
    ),
    DropReason("datapath_drop_hw_post_process", "a frame that the NIC had begun on could not be restored", "3.7"),
    DropReason("datapath_drop_nsh_decap_error", "no NSH header where one should be"),
    DropReason("datapath_drop_sample_error", "an action sampled it away"),
    DropReason("drop_action_of_pipeline", "a flow says drop, or no flow matched"),
    DropReason("drop_action_bridge_not_found", "the bridge is gone"),
    DropReason("drop_action_recursion_too_deep", "the flows recurse too deep"),
    DropReason("drop_action_too_many_resubmit", "the flows resubmit too often"),
    DropReason("drop_action_stack_too_deep", "the flows push too much"),
    DropReason("drop_action_no_recirculation_context", "recirculated without its state"),
    DropReason("drop_action_recirculation_conflict", "recirculated twice at once"),
    DropReason("drop_action_too_many_mpls_labels", "too many MPLS labels"),
    DropReason("drop_action_invalid_tunnel_metadata", "invalid tunnel metadata"),
    DropReason("drop_action_unsupported_packet_type", "a packet type that the port cannot take"),
    DropReason("drop_action_congestion", "congestion was marked where it cannot be"),
    DropReason("drop_action_forwarding_disabled", "spanning tree does not forward on the port"),
    DropReason("drop_action_tunnel_routing_failed", "no route to the tunnel's far end", "3.6"),
    DropReason("drop_action_tunnel_output_no_ethernet", "the way to the tunnel's far end is no Ethernet", "3.6"),
    DropReason("drop_action_tunnel_neigh_cache_miss", "the tunnel's next hop is not resolved", "3.6"),
    DropReason("drop_action_tunnel_header_build_failed", "no header could be made for the tunnel", "3.6"),
)
"""Reasons that the userspace datapath counts as a whole, in coverage/show."""

ERRORS = {
    "upcall_flow_limit_hit": "as many megaflows as OVS keeps (upcall/show): further flows go by upcalls",
    "upcall_flow_limit_kill": "more than twice as many megaflows: OVS removed them all",
    "packet_in_overflow": "frames for a controller that no queue of the bridge had room for",
    "conntrack_full": "the connection table was full",
    "conntrack_zone_full": "a zone's connection table was full",
    "conntrack_l3csum_err": "connection tracking found a wrong IP checksum",
    "conntrack_l4csum_err": "connection tracking found a wrong TCP, UDP or ICMP checksum",
    "conntrack_tcp_seq_chk_failed": "a TCP sequence number was outside of its connection's window",
    "conntrack_invalid_tcp_flags": "TCP flags that no packet may have together",
    "conntrack_lookup_natted_miss": "a translated connection was not found",
}
"""Coverage counters of frames that OVS did not treat as asked, and need not have dropped (``lib/conntrack.c``,
``lib/conntrack-tcp.c``, ``ofproto/ofproto-dpif-upcall.c``). A trial may lose nothing while they rise."""

TX_REASONS = tuple(reason.name for reason in PORT_REASONS if reason.name.startswith("ovs_tx"))
"""OVS's reasons for frames that it could not put on a port; their sum is the port's tx_dropped."""

RX_REASONS = tuple(reason.name for reason in PORT_REASONS if reason.name not in TX_REASONS)
"""Reasons for frames that OVS did not get from a port; their sum is the port's rx_dropped."""

DROP_COUNTERS = tuple(reason.name for reason in DATAPATH_REASONS)
"""Coverage counters of drops. A version's snapshot lacks those that the version does not have."""


def read_drops(bridge: OpenFlowConnection, name: str, ports: Mapping[int, str]) -> dict[str, int]:
    """``meter.NAME.ID`` and ``flow.NAME.MATCH``: frames dropped so far by a bridge's meters and drop flows.

    Meters count at once. Revalidators update flows within ``max-revalidator`` (500 ms).

    ``name``: of the bridge. ``ports``: names by OpenFlow port number, for the matches.
    """
    try:
        meters = bridge.ask(*_METERS)
    except OpenFlowRefusedError:
        meters = b""  # a datapath without meters
    counters = Counter({f"meter.{name}.{meter}": dropped for meter, dropped in parse_meters(meters)})
    if sum(active for _, active, _, _ in _TABLE.iter_unpack(bridge.ask(*_TABLES))) <= MOST_FLOWS:
        for match, packets in parse_drop_flows(bridge.ask(*_FLOWS), ports):
            counters[f"flow.{name}.{match}"] += packets
    return dict(counters)


def parse_meters(body: bytes) -> Iterator[tuple[int, int]]:
    """Each meter with the frames that its bands dropped. All of OVS's bands drop."""
    while body:
        meter, length, *_ = _METER.unpack_from(body)
        bands = body[_METER.size : length]
        yield meter, sum(packets for packets, _ in _BAND.iter_unpack(bands))
        body = body[length:]


def parse_drop_flows(body: bytes, ports: Mapping[int, str]) -> Iterator[tuple[str, int]]:
    """The match, in ovs-ofctl's words, and the frames of each flow that outputs nowhere."""
    while body:
        length, table, _, _, priority, _, _, _, _, _, packets, _ = _FLOW.unpack_from(body)
        _, match_length = _TYPE_LENGTH.unpack_from(body, _FLOW.size)
        match = body[_FLOW.size + _TYPE_LENGTH.size : _FLOW.size + match_length]
        instructions = body[_FLOW.size + -(-match_length // 8) * 8 : length]
        if not any(_acts(instructions)):
            fields = ",".join([f"priority={priority}", *_fields(match, ports)])
            yield (f"table={table}," if table else "") + fields, packets
        body = body[length:]


def _acts(instructions: bytes) -> Iterator[bool]:
    """For each instruction, yield whether it can send a frame anywhere."""
    while instructions:
        kind, length = _TYPE_LENGTH.unpack_from(instructions)
        yield kind == _GOTO or (kind in {_WRITE, _APPLY} and length > _INSTRUCTION_HEADER_BYTES)
        instructions = instructions[length:]


def _fields(match: bytes, ports: Mapping[int, str]) -> Iterator[str]:
    while match:
        kind, field, length = _OXM.unpack_from(match)
        value = match[_OXM.size : _OXM.size + length]
        masked, number = field & 1, field >> 1
        if (kind, number) == _CT_STATE:
            yield f"ct_state={_flags(value)}"
            match = match[_OXM.size + length :]
            continue
        name = _FIELDS.get(number, f"oxm{number}") if kind == _BASIC else f"oxm{kind:x}.{number}"
        half = length // 2 if masked else length
        mask = "/" + _value(name, value[half:], {}) if masked else ""
        yield f"{name}={_value(name, value[:half], ports)}{mask}"
        match = match[_OXM.size + length :]


def _flags(value: bytes) -> str:
    """The flags of a masked ct_state: ``+new+trk``."""
    state, mask = int.from_bytes(value[:4], "big"), int.from_bytes(value[4:], "big")
    return "".join(f"{'-+'[state >> bit & 1]}{name}" for bit, name in enumerate(_CT_FLAGS) if mask >> bit & 1)


def _value(name: str, value: bytes, ports: Mapping[int, str]) -> str:
    number = int.from_bytes(value, "big")
    if name.startswith("eth_") and len(value) == 6:
        return value.hex(":")
    if name.startswith("ipv4_"):
        return str(ipaddress.IPv4Address(value))
    if name == "in_port":
        return ports.get(number, str(number))
    return f"{number:#x}" if name in {"eth_type", "vlan_vid"} or name.startswith("oxm") else str(number)


def parse_pmd_stats(text: str) -> dict[str, int]:
    """Counters of ``pmd-stats-show`` (to 3.x): "pmd.c01.emc_hits" of one PMD, "pmd.emc_hits" of all, "main.emc_hits".

    A listing of another shape is an error; a counter that is not listed is absent.
    """
    return _parse(text, _STATS_NAMES)


def parse_pmd_perf(text: str) -> dict[str, int]:
    """Counters of ``pmd-perf-show`` under the same names; of cycles only "cycles_used" (busy and idle)."""
    counters = _parse(text, _PERF_NAMES)
    idle = [name.rpartition(".")[0] for name, count in counters.items() if (name[-8:], count) == ("received", 0)]
    return {f"{thread}.{lookup}": 0 for thread in idle for lookup in _LOOKUPS} | counters


def _parse(text: str, names: dict[str, str]) -> dict[str, int]:
    counters: dict[str, int] = {}
    thread: str | None = None
    for line in map(str.strip, text.splitlines()):
        if header := _THREAD.match(line):
            thread = "main" if header["main"] else f"pmd.c{int(header['core']):02d}"
            continue
        match = _COUNT.match(line)
        if match is None or (name := names.get(match["name"].lower())) is None:
            continue
        if thread is None:
            raise TestbedError(f"PMD statistics begin with {line!r}, not with a thread", evidence={"listing": text})
        count = int(match["count"])
        # OVS subtracts a PMD's sleep from its idle cycles, so those of a stopped PMD can be negative.
        count = count - (1 << 64) if count >= 1 << 63 else count
        counters[f"{thread}.{name}"] = count
        if thread != "main":
            counters[f"pmd.{name}"] = counters.get(f"pmd.{name}", 0) + count
    return counters


def parse_port_stats(body: bytes) -> dict[int, dict[str, int]]:
    """Counters of every port of a bridge, by OpenFlow port number; a counter that the port lacks is absent."""
    ports: dict[int, dict[str, int]] = {}
    while body:
        length, port, _, _, *counters = _STATS.unpack_from(body)
        known = {name: value for name, value in zip(_STANDARD, counters, strict=True) if value != _UNKNOWN}
        properties = body[_STATS.size : length]
        while properties:
            kind, size = _TYPE_LENGTH.unpack_from(properties)
            if kind == _EXPERIMENTER_TYPE and _EXPERIMENTER.unpack_from(properties)[2:] == (_INTEL, _CUSTOM):
                known.update(_custom_counters(properties[:size]))
            properties = properties[-(-size // 8) * 8 :]  # each is padded to 8 bytes
        ports[port] = known
        body = body[length:]
    return ports


def _custom_counters(prop: bytes) -> Iterator[tuple[str, int]]:
    """Yield the counters of a property. It has (length byte, name, 64-bit value), as often as its header says."""
    (count,) = struct.unpack_from("!H", prop, _CUSTOM_HEADER_BYTES - 2)
    at = _CUSTOM_HEADER_BYTES
    for _ in range(count):
        length = prop[at]
        name = prop[at + 1 : at + 1 + length].rstrip(b"\0").decode("ascii", errors="replace")
        (value,) = struct.unpack_from("!Q", prop, at + 1 + length)
        at += 1 + length + 8
        if value != _UNKNOWN:
            yield name, value


class OvsCollector(Collector):
    """Counters of one OVS, read in a few milliseconds. Source "ovs".

    ===============================  ==================================================================
    counter                          meaning
    ===============================  ==================================================================
    ``<port>.rx_packets`` ...        OpenFlow port statistics: rx/tx packets, bytes, dropped, errors
    ``<port>.ovs_tx_failure_drops``  one of OVS's own reasons, part of tx_dropped: the far ring was full
    ``<port>.ovs_tx_retries``        vhost enqueue was tried again
    ``pmd.packets_received``         by all PMD threads (``pmd.c01.packets_received``: by one)
    ``pmd.cycles_busy``, ``_idle``   TSC cycles on packets and on empty polls
    ``pmd.emc_hits`` ...             ends of lookups: emc, smc, megaflow, upcalls_ok, upcalls_failed
    ``pmd.recirculations``           packets that passed the datapath again
    ``main.<name>``                  the same of the main thread, which polls ports that are not DPDK's
    ``coverage.<name>``              ovs-appctl coverage/show: datapath_drop_*, drop_action_*, all others
    ``meter.<bridge>.<id>``          frames that a meter dropped
    ``flow.<bridge>.<match>``        frames of a flow without output; settles within 0.5 s
    ``connections``, ``.zone7``      that the datapath tracks, and those of zone 7: as many as there are, they may fall
    ``flows.packets``, ``.removed``  with ``hw-offload``: what datapath flows counted, and how many are gone
    ``vswitchd.cpu_ns``              CPU time of ovs-vswitchd, all threads, in steps of a clock tick
    ===============================  ==================================================================

    Coverage counters of PMD threads reach the total only once a second (OVS: coverage_try_clear), so a drop in the
    last second of a trial may be missing: ``settled`` waits for it.
    """

    source = "ovs"

    def __init__(self, instance: RunningOvs, topologies: Callable[[], Sequence[BuiltOvsTopology]]) -> None:
        self._instance = instance
        self._topologies = topologies
        self._drops: list[str] | None = None
        self._pmd_command: str | None = None
        self._flow_counter = FlowCounter(instance.ctl)

    def forget_version(self) -> None:
        """Ask again what this version of OVS counts: it is another one now."""
        self._drops = self._pmd_command = None

    def snapshot(self) -> CounterSnapshot:
        counters = self._process()
        for built in self._topologies():
            counters.update(self._ports(built))
            counters.update(built.zones.counters())
        if self._instance.options.other_config.get("hw-offload") == "true":
            counters.update(self._flow_counter.read())
        return CounterSnapshot(self.source, time.monotonic_ns(), tuple(sorted(counters.items())))

    def sample(self) -> dict[str, int]:
        """What costs little: all but the counters that list a bridge's meters and flows, or the datapath's flows.

        In their place ``<bridge>.openflow_packets``: packets that the bridge's flows matched (OFPMP_AGGREGATE).
        """
        counters = self._process()
        for built in self._topologies():
            counted = _counted_ports(built.topology)
            for bridge in built.topology.bridges:
                with connected(built.management_socket(bridge)) as connection:
                    (packets,) = struct.unpack_from("!Q", connection.ask(*_AGGREGATE))  # packets come first
                    if bridge in counted:
                        counters.update(_port_counters(connection, _named(built, bridge, counted[bridge])))
                counters[f"{bridge}.openflow_packets"] = packets
        return counters

    def tracked(self) -> dict[str, int]:
        """``connections`` of the datapath, where a topology tracks some and the datapath counts them."""
        return {name: number for built in self._topologies() for name, number in built.zones.total().items()}

    def _process(self) -> dict[str, int]:
        """Counters of vswitchd as a whole."""
        counters = self._pmds() | self._coverage()
        with still_there(self._instance.pid, "ovs-vswitchd"):
            return counters | {"vswitchd.cpu_ns": process_cpu_ns(self._instance.pid)}

    def forwarding_ns(self) -> int | None:
        """Work of the forwarding threads, in ns of virtual time; None if the kernel forwards.

        Without DPDK the main thread forwards. With DPDK the PMD threads do. They poll all the time, so only their
        rounds with frames count ("processing cycles"). In virtual time a cycle of the TSC is 1 ns.

        TestbedError if vswitchd is gone. UnavailableError if this version of OVS does not list those cycles.
        """
        options = self._instance.options
        if options.datapath_type != "netdev":
            return None
        if not options.dpdk:
            with still_there(self._instance.pid, "ovs-vswitchd"):
                return read_schedstat(Path(f"/proc/{self._instance.pid}")).ran_ns
        cycles = self._pmds().get("pmd.cycles_busy")
        if cycles is None:
            raise UnavailableError(
                "this version of OVS does not list the cycles that PMD threads spend on frames "
                "(dpif-netdev/pmd-stats-show, up to OVS 3.x), so it cannot count the instructions of the datapath "
                "dpdk: use the datapath netdev, or compare rates"
            )
        return cycles

    def settled(self, before: CounterSnapshot, after: CounterSnapshot, missing: int) -> CounterSnapshot:  # noqa: ARG002
        """A snapshot whose drop counters explain ``missing`` frames since ``before``, or have settled.

        Takes up to 1.1 s: PMDs publish their counters once a second, and OVS shows no state to wait on. A PMD that the
        host kept off its CPU is later, and has published a part by then: its rest is waited for a second more.
        """
        old = before.as_dict()
        began = time.monotonic()
        while True:
            snapshot = self.snapshot()
            new = snapshot.as_dict()
            drops = sum(_since(old, new, kind) for kind in DROP_PREFIXES)
            # The pipeline's own drops are counted by flows, too, and those counters settle by themselves.
            named = _since(old, new, "flow.") >= _since(old, new, "coverage.drop_action_of_pipeline")
            most_s = _SETTLE_S if not drops else _SETTLE_S + 1.0
            if (drops >= missing and named) or time.monotonic() > began + most_s:
                return snapshot
            time.sleep(_SETTLE_POLL_S)

    def _ports(self, built: BuiltOvsTopology) -> dict[str, int]:
        counters: dict[str, int] = {}
        for bridge, ports in _counted_ports(built.topology).items():
            names = _named(built, bridge, ports)
            with connected(built.management_socket(bridge)) as connection:
                counters |= _port_counters(connection, names)
                counters |= read_drops(connection, bridge, names)
        return counters

    def _pmds(self) -> dict[str, int]:
        if self._pmd_command is None:  # OVS 4.0 has only the second one
            known = self._instance.ctl.usage("dpif-netdev/pmd-stats-show") is not None
            self._pmd_command = "dpif-netdev/pmd-stats-show" if known else "dpif-netdev/pmd-perf-show"
        try:
            text = self._instance.ctl.call(self._pmd_command)
        except RefusedError:  # no datapath yet: nothing was built
            return {}
        return parse_pmd_stats(text) if self._pmd_command.endswith("stats-show") else parse_pmd_perf(text)

    def _coverage(self) -> dict[str, int]:
        """Coverage counters with a hit so far. This version's counters of drops and errors are 0 without a hit."""
        if self._drops is None:
            # coverage/show leaves out counters without a hit, also those of drops and errors that this version has.
            self._drops = []
            for name in (*DROP_COUNTERS, *ERRORS):
                with suppress(RefusedError):  # this version has no such counter
                    self._instance.ctl.call("coverage/read-counter", name)
                    self._drops.append(name)
        counters = {f"coverage.{name}": 0 for name in self._drops}
        for line in self._instance.ctl.call("coverage/show").splitlines():
            if match := _COVERAGE.match(line):
                counters[f"coverage.{match[1]}"] = int(match[2])
        return counters


def _named(built: BuiltOvsTopology, bridge: str, ports: Sequence[str]) -> dict[int, str]:
    """These ports of a bridge by their OpenFlow numbers."""
    return {number: port for number, port in built.port_names(bridge).items() if port in ports}


def _port_counters(connection: OpenFlowConnection, names: Mapping[int, str]) -> dict[str, int]:
    counters: Counter[str] = Counter()
    stats = parse_port_stats(connection.ask(*PORT_STATS))
    for number in stats.keys() & names.keys():
        for name, value in stats[number].items():
            counters[f"{names[number]}.{name}"] += value  # a bond has several numbers
    return dict(counters)


def _counted_ports(topology: Topology) -> dict[str, list[str]]:
    """The ports to read, by bridge. Patch ports are left out: a chain has many, and they lose nothing.

    Each bridge takes most of a millisecond. Of many bridges, those with only veth pairs are left to the kernel's
    counters.
    """
    patches = {name for patch in topology.patches for name in (patch.port_a, patch.port_b)}
    veths = {name for veth in topology.veths for name in (veth.port_a, veth.port_b)}
    counted: dict[str, list[str]] = defaultdict(list)
    for bridge, port in all_ports(topology):
        if port not in patches:
            counted[bridge].append(port)
    if len(counted) <= _MOST_BRIDGES:
        return counted
    return {bridge: ports for bridge, ports in counted.items() if not veths.issuperset(ports)}


def _since(old: Mapping[str, int], new: Mapping[str, int], prefix: str) -> int:
    return sum(new[name] - old[name] for name in new.keys() & old.keys() if name.startswith(prefix))


class KernelCollector(Collector):
    """Counters of all topologies' veth pairs, namespaces' interfaces, queues and sockets. Source "kernel".

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

    source = "kernel"

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
            if device is not None and "iface=" in device and " " not in device and port in local.values()
        }
        prefixes: defaultdict[Path, dict[str, str]] = defaultdict(dict, {self._home: dict(local)})
        prefixes[OWN_NAMESPACE].update(far)  # OVS may run in our own namespace
        for nic in built.topology.nics:
            prefixes[Path("/run/netns") / built.netns(nic.namespace)][nic.name] = f"{nic.port}.far"
        return {namespace: own for namespace, own in prefixes.items() if own}
