"""Arguments of measurements: a live topology, a traffic, a load; and whether the topology can carry the traffic.

They are checked before anything is sent or built: a fault here is the test author's, not the DUT's or the rig's.
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any

from pytest_nfvperf.measure.rig import LiveTopology, directions_of
from pytest_nfvperf.model.arguments import NAME, Allowed, number, one, whole
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.connections import Connections
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.conversation_frames import ConversationFrames
from pytest_nfvperf.model.traffic.mix import AnyTraffic, TrafficMix, classes_of, least_load_fps
from pytest_nfvperf.model.traffic.traffic import Traffic, check_mtu

_TAKE_FIXTURE = "take a fixture that deploys one, as in `def test_it(phy2phy, search)`, or write deploy(phy2phy())"


def _instead_of_live(given: Any) -> str:
    """Hint for an author who passed something else as the live topology."""
    if isinstance(given, Topology):
        return f"that is a topology as data; write deploy(...) around it, or {_TAKE_FIXTURE}"
    if isinstance(given, AnyTraffic):
        return "that is the traffic; the live topology comes first, then the traffic"
    if callable(given):
        return f"call it, if it deploys a topology; else {_TAKE_FIXTURE}"
    return f"that is no deployed topology: {_TAKE_FIXTURE}"


def _instead_of_traffic(given: Any) -> str:
    if isinstance(given, LiveTopology):
        return "that is the live topology, which comes first; then the traffic"
    if isinstance(given, int) and not isinstance(given, bool):
        return f"write Traffic(frame_size={given})"
    if isinstance(given, TrafficMix):
        return "copies are not counted by class: write a Traffic, such as Traffic(frame_size=64)"
    return ""


def _instead_of_topology(given: Any) -> str:
    if isinstance(given, LiveTopology):
        return "that is deployed already: give the topology as data"
    return "write the topology as data, such as phy2phy(), with the parentheses" if callable(given) else ""


Live = Annotated[
    LiveTopology,
    Allowed(
        f"a live topology: {_TAKE_FIXTURE}",
        lambda value: isinstance(value, LiveTopology) or (hasattr(value, "topology") and hasattr(value, "runner")),
        _instead_of_live,
    ),
]
"""A third party's is recognised by its attributes."""
_TRAFFIC = "a Traffic, such as Traffic(frame_size=64)"
Sent = Annotated[AnyTraffic, one((Traffic, TrafficMix), _TRAFFIC, _instead_of_traffic)]
OneTraffic = Annotated[Traffic, one(Traffic, _TRAFFIC, _instead_of_traffic)]
"""Where a mix would say nothing: copies of a mirror cannot be told apart by class."""
TOPOLOGY = one(Topology, "a topology, such as phy2phy() or what compose(...) returned", _instead_of_topology)
MOST_FPS = 1_000_000_000
"""No port sends more: it would be 672 Gbit/s of the shortest frames. The engine's pacer counts CPU cycles."""
LoadFps = Annotated[float, number(1, MOST_FPS, "frames per second and direction, such as 4e6")]
WholeLoad = Annotated[int, whole(1, MOST_FPS, "frames per second and direction")]
DurationS = Annotated[float, number(0, unit="seconds", above=True)]
Label = Annotated[str, Allowed("the name of a label, such as 'bridges'", NAME.accepts)]


def check_live(call: str, live: LiveTopology, traffic: AnyTraffic) -> None:
    """Raise ArgumentError for a live topology that another one replaced, or a traffic that it cannot carry."""
    if isinstance(live, LiveTopology):
        live.refuse_replaced()
    check_sendable(call, live.topology, traffic)


def check_load(call: str, traffic: AnyTraffic, load_fps: float, duration_s: float) -> None:
    """Raise ArgumentError for a load that the author chose and of which a class of a mix would send nothing."""
    least_fps = least_load_fps(traffic, duration_s)
    if isinstance(traffic, TrafficMix) and load_fps < least_fps:
        raise ArgumentError(
            f"{call}(): each class of {traffic.label} must send, and {load_fps:,.0f} frames/s for "
            f"{format_seconds(duration_s)} leave one without a frame: give {least_fps:,} frames/s at least"
        )


def _untranslated(traffic: Traffic, part: Connections) -> str:
    """Why a conversation would not be measured as one that this part translates; "" where nothing is wrong."""
    conversation = traffic.packet
    if not isinstance(conversation, ConversationFrames) or not part.translations:
        return ""
    if part.server_ports and conversation.to_port not in part.server_ports:
        return ""
    version, ends = conversation.ip_version, {"src": "source", "dst": "destination"}
    if (other := part.translations[0].version) != version:
        return (
            f"{part} leave IPv{version} alone, which {conversation.label} is: write addresses of IPv{other} as its "
            f"client_ip and server_ip, or a NAT of IPv{version}"
        )
    needed = {ends[nat.what] for nat in part.translations}
    expected = {"both": set(ends.values()), None: set()}.get(conversation.nat, {str(conversation.nat)})
    if needed <= expected:
        return ""
    wanted = "both" if len(needed | expected) == 2 else next(iter(needed))
    return f"{part} translate what {conversation.label} expects as it was sent: give it nat={wanted!r}"


def check_sendable(call: str, topology: Topology, traffic: AnyTraffic) -> None:
    """Raise ArgumentError for a topology without a direction, or with a port that cannot carry the traffic.

    ``call``: as the author wrote it, for the message.
    """
    ends = [port.name for port in topology.ports]
    if ends and not topology.directions:
        raise ArgumentError(
            f"{call}(): topology {topology.name!r} has no two endpoints that send to each other, only "
            f"{', '.join(ends)}: add an endpoint(...), or say who sends to whom, such as "
            f"Direction({ends[0]!r}, {ends[0]!r})"
        )
    for port in topology.ports:
        try:
            for each in classes_of(traffic):
                check_mtu(each.traffic, port.mtu)
        except ArgumentError as error:
            raise ArgumentError(f"{call}(): port {port.name!r} of topology {topology.name!r}: {error}") from None
    clients = {direction.tx for direction in directions_of(topology, traffic)}
    for each, part in product(classes_of(traffic), topology.connections):
        if part.client in clients and (why := _untranslated(each.traffic, part)):
            raise ArgumentError(f"{call}(): {why}")
    crossed = {crossing.bridge for crossing in topology.crossings}
    for port in (topology.port(direction.tx) for direction in directions_of(topology, traffic)):
        is_access = port.vlan is not None and port.vlan.tag is not None and not port.vlan.trunks
        tagged = next((each.traffic.headers_name for each in classes_of(traffic) if each.traffic.is_tagged), None)
        if is_access and tagged and port.bridge not in crossed:
            raise ArgumentError(
                f"{call}(): port {port.name!r} of topology {topology.name!r} is an access port, where OVS drops frames "
                f"that come in with a tag, as those of {tagged} do: leave its vlan out, give it trunks, or add a "
                "path(...)"
            )
