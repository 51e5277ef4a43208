"""Names of the counters that say why OVS dropped a frame, and which of its versions has them.

From OVS's sources, branches 2.15 to 4.0: ``lib/netdev-dpdk.c`` (SW_CSTATS), ``lib/dpif-netdev.c``,
``lib/odp-execute.c`` and ``ofproto/ofproto-dpif-xlate.c`` (COVERAGE_DEFINE).
docs/reference/drop-ledger.md has them as a table.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST, LAST = "2.15", "4.0"
"""The versions looked at."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A counter of drops. ``since`` and ``until``: the first and last version that has it, within 2.15 to 4.0."""

    name: str
    meaning: str
    since: str = FIRST
    until: str = LAST


PORT_REASONS = (
    Reason("ovs_tx_failure_drops", "the ring at the far end was full, or there was no buffer"),
    Reason("ovs_tx_mtu_exceeded_drops", "longer than the port's MTU"),
    Reason("ovs_tx_qos_drops", "above the port's egress policer"),
    Reason("ovs_tx_invalid_hwol_drops", "offloads that the port cannot do"),
    Reason("ovs_rx_qos_drops", "above the port's ingress policer"),
)
"""Of DPDK's ports, in OpenFlow's port statistics."""

DATAPATH_REASONS = (
    Reason(
        "datapath_drop_upcall_error",
        "the upcall for a frame without a flow failed, as for one out of a tunnel whose key (VNI) no port has",
    ),
    Reason("datapath_drop_lock_error", "no upcall was possible: flows were being purged"),
    Reason("datapath_drop_rx_invalid_packet", "the frame could not be parsed"),
    Reason("datapath_drop_userspace_action_error", "an upcall asked for by an action failed"),
    Reason("datapath_drop_tunnel_push_error", "encapsulation failed"),
    Reason("datapath_drop_tunnel_pop_error", "decapsulation failed"),
    Reason("datapath_drop_tunnel_tso_recirc", "a TSO frame would have been encapsulated twice", "3.3", "3.4"),
    Reason("datapath_drop_recirc_error", "recirculated too often"),
    Reason("datapath_drop_invalid_port", "output to a port that is gone"),
    Reason("datapath_drop_invalid_bond", "output to a bond that is gone"),
    Reason("datapath_drop_invalid_tnl_port", "output to a tunnel port that is gone"),
    Reason("datapath_drop_meter", "above a meter's rate"),
    Reason("datapath_drop_hw_miss_recover", "a frame that the NIC had begun on could not be restored", "2.16", "3.6"),
    Reason("datapath_drop_hw_post_process", "a frame that the NIC had begun on could not be restored", "3.7"),
    Reason("datapath_drop_nsh_decap_error", "no NSH header where one should be"),
    Reason("datapath_drop_sample_error", "an action sampled it away"),
    Reason("drop_action_of_pipeline", "a flow says drop, or no flow matched"),
    Reason("drop_action_bridge_not_found", "the bridge is gone"),
    Reason("drop_action_recursion_too_deep", "the flows recurse too deep"),
    Reason("drop_action_too_many_resubmit", "the flows resubmit too often"),
    Reason("drop_action_stack_too_deep", "the flows push too much"),
    Reason("drop_action_no_recirculation_context", "recirculated without its state"),
    Reason("drop_action_recirculation_conflict", "recirculated twice at once"),
    Reason("drop_action_too_many_mpls_labels", "too many MPLS labels"),
    Reason("drop_action_invalid_tunnel_metadata", "invalid tunnel metadata"),
    Reason("drop_action_unsupported_packet_type", "a packet type that the port cannot take"),
    Reason("drop_action_congestion", "congestion was marked where it cannot be"),
    Reason("drop_action_forwarding_disabled", "spanning tree does not forward on the port"),
    Reason("drop_action_tunnel_routing_failed", "no route to the tunnel's far end", "3.6"),
    Reason("drop_action_tunnel_output_no_ethernet", "the way to the tunnel's far end is no Ethernet", "3.6"),
    Reason("drop_action_tunnel_neigh_cache_miss", "the tunnel's next hop is not resolved", "3.6"),
    Reason("drop_action_tunnel_header_build_failed", "no header could be made for the tunnel", "3.6"),
)
"""Of the userspace datapath as a whole, in coverage/show."""

KERNEL_REASONS = (
    Reason("qdisc_drops", "the interface's transmit queue was full (tc -s qdisc)"),
    Reason("socket_drops", "the buffer of OVS's packet socket was full: it did not read in time (ss -0 -m)"),
    Reason("ring_drops", "the ring by which the generator reads the far end was full (packet(7), PACKET_STATISTICS)"),
    Reason("xdp_drops", "the AF_XDP socket at the far end had no room (rx_dropped of the veth's end)"),
    Reason("tx_dropped", "the driver took it not; on veth: the receiver's backlog was full (softnet)"),
    Reason("send_refused", "the rest of a batch that OVS gave up, because the kernel had refused a frame of it"),
)
"""Of kernel interfaces, whatever the version."""

TX_REASONS = tuple(reason.name for reason in PORT_REASONS if reason.name.startswith("ovs_tx"))
"""OVS's reasons for frames it could not put on a port; together they are the port's tx_dropped."""

RX_REASONS = tuple(reason.name for reason in PORT_REASONS if reason.name.startswith("ovs_rx"))
RX_OUTSIDE_DROPPED = ("rx_missed_errors", "rx_mbuf_allocation_errors")
"""NIC counters that are not part of rx_dropped: the frame never reached OVS."""

DROP_COUNTERS = tuple(reason.name for reason in DATAPATH_REASONS)
"""Coverage counters of drops. Those that a version lacks are absent."""

UPCALL_DROPS = ("datapath_drop_upcall_error", "datapath_drop_lock_error")
"""What a PMD counts as failed upcalls at once, and coverage a second later: the same frames."""
