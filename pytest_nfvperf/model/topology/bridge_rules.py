"""What a bridge that learns MAC addresses does with frames before it forwards them: an access list, conntrack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from pytest_nfvperf.model.arguments import INTEGER, TEXT, checked, optional

if TYPE_CHECKING:
    from pytest_nfvperf.model.topology.topology import Topology

MOST_ACL_RULES = 1 << 22
"""One for each address of 100.64.0.0/10."""

_ZONES = 1 << 16


@dataclass(frozen=True, slots=True)
class BridgeRules:
    """OpenFlow tables that frames pass before the bridge forwards them by their MAC addresses.

    Attributes:
        bridge: which learns MAC addresses.
        acl: rules of an access list. Each drops UDP to another address of 100.64.0.0/10, where no traffic of ours goes:
            a frame is looked up among all of them, and passes.
        zone: of connection tracking, 0..65535: IP frames are looked up in it, and new connections committed; None for
            no tracking.
    """

    bridge: str
    acl: int = 0
    zone: int | None = None

    def __str__(self) -> str:
        """``access list of 1,000 rules, conntrack zone 7``."""
        said = [f"access list of {self.acl:,} rule{'s' if self.acl > 1 else ''}"] if self.acl else []
        said += [] if self.zone is None else [f"conntrack zone {self.zone}"]
        return ", ".join(said) or "no rules"


@checked(bridge=TEXT, acl=INTEGER, zone=optional(INTEGER))
def rules(bridge: str, *, acl: int = 0, zone: int | None = None) -> BridgeRules:
    """What frames pass on a bridge that learns MAC addresses, before they are forwarded.

    Args:
        bridge: its name.
        acl: rules of an access list that drop what no traffic of ours is: UDP to addresses of 100.64.0.0/10.
        zone: of connection tracking; None for none.
    """
    return BridgeRules(bridge, acl, zone)


class RuleSettings(TypedDict, total=False):
    """What may be said of a bridge's rules; fields of ``BridgeRules``."""

    acl: int
    zone: int | None


def wrong_rules(topology: Topology) -> str | None:
    """What is wrong with a topology's rules, or with tunnels of many keys, and what to do; None where nothing is."""
    with_rules = [one.bridge for one in topology.rules]
    for number, one in enumerate(topology.rules):
        problem = _wrong_settings(one)
        if one.bridge not in topology.bridges:
            return f"rules are for unknown bridge {one.bridge!r}"
        if one.bridge in with_rules[:number]:
            return f"bridge {one.bridge!r} has rules twice: give acl and zone in one rules(...)"
        if problem is not None:
            return f"bridge {one.bridge!r}: {problem}"
    spread = [tunnel.bridge for tunnel in topology.tunnels if tunnel.keys > 1]
    return _crowded(topology, spread) or _crossed(topology, {*with_rules, *spread})


def _wrong_settings(one: BridgeRules) -> str | None:
    if not 0 <= one.acl <= MOST_ACL_RULES:
        return f"an access list has 0..{MOST_ACL_RULES} rules, not {one.acl}"
    if one.zone is not None and not 0 <= one.zone < _ZONES:
        return f"conntrack has no zone {one.zone}: 0..{_ZONES - 1}"
    return None


def _crowded(topology: Topology, spread: list[str]) -> str | None:
    """The key is set before it is known by which tunnel a frame leaves."""
    for bridge in spread:
        if sum(tunnel.bridge == bridge for tunnel in topology.tunnels) > 1:
            return f"bridge {bridge!r} has a tunnel of many keys, and another one: put them on bridges of their own"
    return None


def _crossed(topology: Topology, learning: set[str]) -> str | None:
    crossed = {crossing.bridge for crossing in topology.crossings} & learning
    if not crossed:
        return None
    return (
        f"bridge {min(crossed)!r} has a path, and rules or a tunnel of many keys, which need MAC learning: leave one "
        "of them out"
    )
