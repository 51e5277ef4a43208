"""Port mirrors: which frames of a bridge are copied, and where the copies go."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_nfvperf.model.choice import Choice


class MirrorMethod(Choice):
    """Who copies: a row of OVS's Mirror table, or an output action more in every OpenFlow flow."""

    OVSDB = "ovsdb"
    FLOW = "flow"


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror of a bridge, in the words of ovs-vswitchd.conf.db(5), table Mirror.

    A frame that several of the selections fit is copied once for each time it crosses the bridge. Frames that come
    in by the output port are dropped: OVS keeps the port for the mirror.

    Attributes:
        name: of the mirror, not used twice in a topology.
        bridge: whose frames are copied.
        output: port that copies leave by, or None.
        output_vlan: VLAN that copies are sent in (RSPAN), 1..4094; or None. One of the two is given.
        select_all: every frame that crosses the bridge.
        select_src: frames that come in by these ports.
        select_dst: frames that leave by these ports.
        select_vlan: of the frames selected only those in these VLANs, 0 being none; with no other selection, all
            frames in them.
        snaplen: bytes that a copy has at most, 14..65535; None for whole frames.
        by: who copies.
    """

    name: str
    bridge: str
    output: str | None = None
    output_vlan: int | None = None
    select_all: bool = False
    select_src: tuple[str, ...] = ()
    select_dst: tuple[str, ...] = ()
    select_vlan: tuple[int, ...] = ()
    snaplen: int | None = None
    by: MirrorMethod = MirrorMethod.OVSDB

    def copies(self, entry: str, leaving: str, vlan: int = 0) -> bool:
        """True when a frame of this VLAN is copied that comes in by one port and leaves by the other."""
        if self.output in {entry, leaving}:
            return False
        if self.select_vlan and vlan not in self.select_vlan:
            return False
        by_port = bool(self.select_src or self.select_dst)
        everything = self.select_all or (bool(self.select_vlan) and not by_port)
        return everything or entry in self.select_src or leaving in self.select_dst


@dataclass(frozen=True, slots=True)
class MirrorCounts:
    """What OVS counted of a mirror's copies since it was made: column ``statistics`` of the Mirror table."""

    tx_packets: int
    tx_bytes: int
