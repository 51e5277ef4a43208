"""Changes to a DUT while frames flow: flows, groups, meters, ports, links, polling threads, tunnels.

Each event's ``undo`` leaves the DUT as it was before ``act``. With ``for_s`` it is undone within the trial, so many
seconds after the DUT has taken the change; else after the trial.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated

from pytest_nfvperf.measure.call_arguments import Live
from pytest_nfvperf.measure.events import EVENT_AT_S, Event, ForS
from pytest_nfvperf.measure.rig import LINK_DEADLINE_S, LiveTopology
from pytest_nfvperf.model.arguments import Name, checked, whole
from pytest_nfvperf.model.display import format_seconds, how_many, listed
from pytest_nfvperf.model.errors import ArgumentError, DeadlineError, UnavailableError
from pytest_nfvperf.model.topology.links import overlays
from pytest_nfvperf.model.topology.topology import all_ports
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.ports.generator import OWN_RING

_UNUSED = int(ipaddress.IPv4Address("100.96.0.0"))
_ADDED_PORT = "nfv-added"
_NOBODY = "/run/nfvperf-nobody.sock"  # where nobody listens, as before a port's VM starts
_AT_ONCE, _DROP_ALL = " at once", "priority=65535,actions=drop"
_FILE = (("-",), ("--bundle", "-"))
_OPEN_VSWITCH = "Open_vSwitch ."
_POLL_S = 0.01
_TUNNEL_DEADLINE_S = 10.0


def change_event(name: str, act: Callable[[], object], undo: Callable[[], object], for_s: float | None) -> Event:
    return Event(name if for_s is None else f"{name} for {format_seconds(for_s)}", EVENT_AT_S, act, undo, for_s)


def unused_addresses(number: int) -> Iterator[ipaddress.IPv4Address]:
    """Of RFC 6598's shared addresses: neither the generator nor an access list of ours has those."""
    return map(ipaddress.IPv4Address, range(_UNUSED, _UNUSED + number))


def _with_port(call: str, live: LiveTopology, port: str) -> BuiltTopology:
    """What has the port: of nodes one."""
    bridges = {name: bridge for bridge, name in all_ports(live.topology)}
    if port not in bridges:
        raise ArgumentError(
            f"events.{call}(): topology {live.name!r} has no port {port!r}: write one of {listed(bridges)}"
        )
    return live.deployment.built.on(bridges[port])


def _entered(live: LiveTopology) -> str:
    """The bridge that the first direction's frames enter."""
    topology = live.topology
    return topology.port(topology.directions[0].tx).bridge if topology.directions else topology.bridges[0]


# Flows, groups and meters.


@checked("events.replace_flows")
def replace_flows(live: Live, *, bundle: bool = False) -> Event:
    """Each flow of the bridge that frames enter is replaced by the same one again, as by an agent that restarts.

    ``rules(bridge, acl=100_000)`` gives it flows that no frame matches. ``bundle``: all take effect at once, in OVS
    also those of an ordered bundle that is not atomic.
    """
    built, bridge = live.deployment.built, _entered(live)
    own = _flows_of(live, bridge)
    name = f"replacement of {how_many(len(own), 'flow')}{_AT_ONCE * bundle}"
    return Event(name, EVENT_AT_S, partial(built.ovs, "ofctl", "add-flows", bridge, *_FILE[bundle], lines=own))


@checked("events.add_flows")
def add_flows(
    live: Live, flows: Annotated[int, whole(1, 1_000_000)] = 1000, *, bundle: bool = False, for_s: ForS = None
) -> Event:
    """Flows that no frame matches are added to the bridge that frames enter: UDP to unused addresses is dropped."""
    built, bridge = live.deployment.built, _entered(live)
    added = [f"priority=2,udp,nw_dst={address},actions=drop" for address in unused_addresses(flows)]
    undo = partial(built.ovs, "ofctl", "replace-flows", bridge, *_FILE[True], lines=_flows_of(live, bridge))
    act = partial(built.ovs, "ofctl", "add-flows", bridge, *_FILE[bundle], lines=added)
    return change_event(f"{how_many(flows, 'flow')} added{_AT_ONCE * bundle}", act, undo, for_s)


def _flows_of(live: LiveTopology, bridge: str) -> list[str]:
    """A bridge's flows as ovs-ofctl(8) reads them; UnavailableError where a service would undo what we do to them."""
    if any(service.owns_flows for service in live.deployment.services):
        raise UnavailableError(f"the flows of bridge {bridge!r} are those of a service, which would undo a change")
    dump = live.deployment.built.ovs("ofctl", "dump-flows", bridge, "--no-stats")
    return [line.strip().replace(" actions=", ",actions=", 1) for line in dump.splitlines() if " actions=" in line]


@checked("events.change_rule")
def change_rule(live: Live, line: Name, for_s: ForS = None) -> Event:
    """A group or meter of the topology's rules is replaced by another: ``"meter=3,kbps,bands=type=drop,rate=1000"``.

    ArgumentError for one that no bridge has, or that OVS refuses.
    """
    key = line.partition(",")[0]
    command = {"group_id": "mod-group", "meter": "mod-meter"}.get(key.partition("=")[0])
    flows = [(one.bridge, own) for one in live.topology.rules for own in one.flows]
    found = {bridge: own for bridge, own in flows if own.partition(",")[0] == key}
    if command is None or not found:
        raise ArgumentError(f"events.change_rule(): no rules(...) of topology {live.name!r} have {key!r}")

    def change(rules: dict[str, str]) -> None:
        for bridge, rule in rules.items():
            live.deployment.built.ovs("ofctl", command, bridge, rule)

    change(dict.fromkeys(found, line))  # OVS may refuse it
    change(found)
    return change_event(f"change of {key}", partial(change, dict.fromkeys(found, line)), partial(change, found), for_s)


# Ports and links.


@checked("events.add_port")
def add_port(live: Live, for_s: ForS = None) -> Event:
    """The bridge that frames enter gets a port: with DPDK a vhost-user port without its VM, else an internal one."""
    bridge = _entered(live)
    ovs, kind = live.deployment.built.on(bridge).ovs, ["type=internal"]
    if live.datapath_kind == "dpdk":
        kind = ["type=dpdkvhostuserclient", f"options:vhost-server-path={_NOBODY}"]
    act = partial(ovs, "vsctl", "add-port", bridge, _ADDED_PORT, "--", "set", "Interface", _ADDED_PORT, *kind)
    undo = partial(ovs, "vsctl", "--if-exists", "del-port", bridge, _ADDED_PORT)
    act()
    error = ovs("vsctl", "get", "Interface", _ADDED_PORT, "error").strip().strip('[]"')
    undo()
    if error:
        raise UnavailableError(f"OVS makes no further port on bridge {bridge!r}: {error}")
    return change_event("port added", act, undo, for_s)


@checked("events.link_down")
def link_down(live: Live, port: Name, for_s: ForS = None) -> Event:
    """A port loses its link, and has it again; of a bond all members do, or the one that is named.

    Of a vhost-user port the far end hangs up, for ``for_s`` or until the trial has ended. UnavailableError where a link
    cannot be taken down.
    """
    bonds = {member: bond.name for bond in live.topology.ports for member in bond.members}
    built, generator = _with_port("link_down", live, bonds.get(port, port)), live.deployment.generator
    ends = [member for member, bond in bonds.items() if bond == port] or [port]
    of_rings = generator is not None and all(generator.sending().get(end) == OWN_RING for end in ends)
    side = generator if generator is not None and of_rings else built

    def set_link(*, up: bool) -> None:
        for end in ends:
            side.set_link(end, up=up)

    act, undo = partial(set_link, up=False), partial(set_link, up=True)
    if side is built:  # a far end hangs up in a trial only
        act()
        undo()
    if generator is not None:
        generator.wait_links_up(LINK_DEADLINE_S)
    built.wait_ready(LINK_DEADLINE_S)
    return change_event(f"link of {port} down", act, undo, for_s)


# Polling threads.


@checked("events.change_pmd_cpus")
def change_pmd_cpus(live: Live, for_s: ForS = None) -> Event:
    """The DUT polls on all of its CPUs but the last (``pmd-cpu-mask``)."""
    *cpus, last = _polling(live, "to poll on fewer")
    mask = hex(sum(1 << cpu for cpu in cpus))
    setting = _setting(live.deployment.built, _OPEN_VSWITCH, f'other_config:pmd-cpu-mask="{mask}"')
    return change_event(f"no polling on CPU {last}", *setting, for_s)


@checked("events.move_rxqs")
def move_rxqs(live: Live, port: Name, for_s: ForS = None) -> Event:
    """The receive queues of a port move to another of the DUT's CPUs, which then polls no others (pmd-rxq-affinity)."""
    built = _with_port("move_rxqs", live, port)
    interface = next(interface for interface, name in built.interface_names().items() if name == port)
    of_port = re.compile(rf"port: *{re.escape(interface)} +queue-id: *(\d+)")
    queues = {cpu: of_port.findall(shown) for cpu, shown in _polling(live, f"to move the queues of {port!r}").items()}
    free = [cpu for cpu, there in queues.items() if not there]
    if not free:
        raise UnavailableError(f"the queues of port {port!r} are on all CPUs that the DUT polls on, and cannot move")
    affinity = ",".join(f"{queue}:{free[-1]}" for there in queues.values() for queue in there)
    setting = _setting(built, f"Interface {interface}", f'other_config:pmd-rxq-affinity="{affinity}"')
    return change_event(f"queues of {port} moved", *setting, for_s)


@checked("events.rebalance_rxqs")
def rebalance_rxqs(live: Live, *, auto: bool = False) -> Event:
    """OVS assigns receive queues to polling threads by their load: once, or from now on (``pmd-auto-lb``)."""
    _polling(live, "to balance queues", 2 if auto else 1)
    built = live.deployment.built
    if auto:
        return change_event("auto-balance on", *_setting(built, _OPEN_VSWITCH, "other_config:pmd-auto-lb=true"), None)
    return Event("queues rebalanced", EVENT_AT_S, partial(built.ovs, "appctl", "dpif-netdev/pmd-rxq-rebalance"))


def _polling(live: LiveTopology, purpose: str, fewest: int = 2) -> dict[int, str]:
    """What OVS says of the queues on each CPU that the DUT polls on; UnavailableError if there are fewer CPUs."""
    if live.datapath_kind == "system":
        raise UnavailableError("the kernel forwards, and has no polling threads")
    shown = live.deployment.built.ovs("appctl", "dpif-netdev/pmd-rxq-show")
    queues = {int(cpu): text for cpu, text in re.findall(r"core_id (\d+):\n((?: .*\n)*)", shown)}
    if len(queues) < fewest:
        has = f"polls on CPU {min(queues)} alone" if queues else "has no polling threads"
        raise UnavailableError(f"the DUT {has}: {purpose} it needs {fewest} (cpus.pmd of a testbed file)")
    return dict(sorted(queues.items()))


def _setting(built: BuiltTopology, record: str, *keys: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """Two functions: keys of a column get values, COLUMN:KEY=VALUE of vsctl; the whole column is as it is now."""
    of, column = record.split(), keys[0].partition(":")[0]
    before = built.ovs("vsctl", "get", *of, column).strip()
    change = partial(built.ovs, "vsctl", "set", *of)
    return partial(change, *keys), partial(change, f"{column}={before}")


# Tunnels.


@checked("events.cut_tunnel")
def cut_tunnel(
    live: Live, tunnel: Name, every_ms: Annotated[int, whole(10, 60_000)] = 100, for_s: ForS = None
) -> Event:
    """BFD watches a tunnel between two nodes, and its underlay drops all frames; it returns when both ends see it down.

    ``tunnel``: one of its two ports. ``every_ms``: from one of BFD's messages to the next; three missing ones are down.
    """
    _with_port("cut_tunnel", live, tunnel)
    built, pairs = live.deployment.built, overlays(live.topology.nodes, live.topology.tunnels, live.topology.underlays)
    overlay = next((one for one in pairs if tunnel in {one.port_a, one.port_b}), None)
    if overlay is None:
        raise UnavailableError(f"port {tunnel!r} of topology {live.name!r} is no tunnel between two nodes")
    ends = [(built.on(end.bridge), end.port) for end in overlay.ends]
    bfd = ("bfd:enable=true", f"bfd:min_tx={every_ms}", f"bfd:min_rx={every_ms}")
    settings = [_setting(end, f"Interface {port}", *bfd) for end, port in ends]
    underlay = overlay.underlay.bridge_a

    def act() -> None:
        built.ovs("ofctl", "add-flow", underlay, _DROP_ALL)
        _await_bfd(ends, up=False)

    def undo() -> None:
        built.ovs("ofctl", "del-flows", underlay, "--strict", _DROP_ALL.partition(",")[0])
        _await_bfd(ends, up=True)
        for _, end_watch in settings:
            end_watch()

    for watch, _ in settings:
        watch()
    _await_bfd(ends, up=True)
    return change_event(f"tunnel {tunnel} cut", act, undo, for_s)


def _await_bfd(ends: Sequence[tuple[BuiltTopology, str]], *, up: bool) -> None:
    deadline = time.monotonic() + _TUNNEL_DEADLINE_S
    while True:
        shown = {port: end.ovs("appctl", "bfd/show", port) for end, port in ends}
        if all(("Local Session State: up" in each) is up for each in shown.values()):
            return
        if time.monotonic() > deadline:
            what = f"BFD of {listed(shown)} to be {'up' if up else 'down'}"
            raise DeadlineError(f"waited {_TUNNEL_DEADLINE_S:g} s for {what}", evidence=shown)
        time.sleep(_POLL_S)
