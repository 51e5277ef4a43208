"""Changes to a DUT while frames flow: flows, groups, meters, ports, links, polling threads, tunnels.

Each event's ``undo`` leaves the DUT as it was before ``act``. With ``for_s`` it is undone within the trial, so many
seconds after the DUT has taken the change; else after the trial.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from pytest_nfvperf.measure.call_arguments import Live
from pytest_nfvperf.measure.events import EVENT_AT_S, Event
from pytest_nfvperf.measure.rig import LINK_DEADLINE_S, LiveTopology
from pytest_nfvperf.model.arguments import Name, checked, number, whole
from pytest_nfvperf.model.display import format_seconds, how_many, listed
from pytest_nfvperf.model.errors import ArgumentError, DeadlineError, UnavailableError
from pytest_nfvperf.model.topology.links import overlays
from pytest_nfvperf.model.topology.topology import all_ports
from pytest_nfvperf.ports.datapath import BuiltTopology
from pytest_nfvperf.ports.generator import OWN_RING

_UNUSED = int(ipaddress.IPv4Address("100.96.0.0"))
"""Of RFC 6598's shared addresses: neither the generator nor an access list of ours has those above."""

_ADDED_PORT = "nfv-added"
_NOBODY = "/run/nfvperf-nobody.sock"  # where nobody listens, as before a port's VM starts
_AT_ONCE, _DROP_ALL = " at once", "priority=65535,actions=drop"
_FILE = (("-",), ("--bundle", "-"))
_POLL_S = 0.01
_TUNNEL_DEADLINE_S = 10.0

ForS = Annotated[float, number(0, 3600, "seconds")] | None


def _event(
    name: str, act: Callable[[], object], undo: Callable[[], object], for_s: float | None, *, tried: bool = False
) -> Event:
    """``tried``: done and undone once now, to see whether it can be."""
    to_undo: list[Callable[[], object]] = []

    def undo_once() -> None:
        if to_undo:
            to_undo.pop()()

    def change() -> None:
        to_undo.append(undo)
        try:
            act()
            if for_s is None:
                return
            time.sleep(for_s)
        except BaseException:
            undo_once()  # half of a change would stay
            raise
        undo_once()

    if tried:
        act()
        undo()
    return Event(name if for_s is None else f"{name} for {format_seconds(for_s)}", EVENT_AT_S, change, undo_once)


def _bridge_of(call: str, live: LiveTopology, port: str) -> str:
    bridges = {name: bridge for bridge, name in all_ports(live.topology)}
    if port not in bridges:
        raise ArgumentError(
            f"events.{call}(): topology {live.name!r} has no port {port!r}: write one of {listed(bridges)}"
        )
    return bridges[port]


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
    addresses = map(ipaddress.IPv4Address, range(_UNUSED, _UNUSED + flows))
    added = [f"priority=2,udp,nw_dst={address},actions=drop" for address in addresses]
    undo = partial(built.ovs, "ofctl", "replace-flows", bridge, *_FILE[True], lines=_flows_of(live, bridge))
    name = f"{how_many(flows, 'flow')} added{_AT_ONCE * bundle}"
    return _event(name, partial(built.ovs, "ofctl", "add-flows", bridge, *_FILE[bundle], lines=added), undo, for_s)


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
    ovs, key = live.deployment.built.ovs, line.partition(",")[0]
    kind = "group" if key.startswith("group_id=") else "meter"
    flows = [(one.bridge, own) for one in live.topology.rules for own in one.flows]
    found = {bridge: own for bridge, own in flows if own.partition(",")[0] == key}
    if not found or not key.startswith(("group_id=", "meter=")):
        raise ArgumentError(f"events.change_rule(): no rules(...) of topology {live.name!r} have {key!r}")

    def change(*, back: bool) -> None:
        for bridge, before in found.items():
            ovs("ofctl", f"mod-{kind}", bridge, before if back else line)

    act, undo = partial(change, back=False), partial(change, back=True)
    return _event(f"change of {key}", act, undo, for_s, tried=True)


# Ports and links.


@checked("events.add_port")
def add_port(live: Live, for_s: ForS = None) -> Event:
    """The bridge that frames enter gets a port: with DPDK a vhost-user port without its VM, else an internal one."""
    bridge = _entered(live)
    ovs = live.deployment.built.on(bridge).ovs
    kind = ["type=internal"]
    if live.datapath_kind == "dpdk":
        kind = ["type=dpdkvhostuserclient", f"options:vhost-server-path={_NOBODY}"]
    act = partial(ovs, "vsctl", "add-port", bridge, _ADDED_PORT, "--", "set", "Interface", _ADDED_PORT, *kind)
    undo = partial(ovs, "vsctl", "--if-exists", "del-port", bridge, _ADDED_PORT)
    act()
    error = ovs("vsctl", "get", "Interface", _ADDED_PORT, "error").strip().strip('[]"')
    undo()
    if error:
        raise UnavailableError(f"OVS makes no further port on bridge {bridge!r}: {error}")
    return _event("port added", act, undo, for_s)


@checked("events.link_down")
def link_down(live: Live, port: Name, for_s: ForS = None) -> Event:
    """A port loses its link, and has it again; of a bond all members do, or the one that is named.

    Of a vhost-user port the far end hangs up, for ``for_s`` or until the trial has ended. UnavailableError where a link
    cannot be taken down.
    """
    members = {member: bond.name for bond in live.topology.ports for member in bond.members}
    built = live.deployment.built.on(_bridge_of("link_down", live, members.get(port, port)))
    generator = live.deployment.generator
    ends = [port] if port in members else [one for one, bond in members.items() if bond == port] or [port]
    hangs_up = generator is not None and all(generator.sending().get(end) == OWN_RING for end in ends)

    def set_link(*, up: bool) -> None:
        for end in ends:
            if generator is not None and hangs_up:
                generator.set_link(end, up=up)
            else:
                built.set_link(end, up=up)

    def await_links() -> None:
        if generator is not None:
            generator.wait_links_up(LINK_DEADLINE_S)
        built.wait_ready(LINK_DEADLINE_S)

    name = f"link of {port} down"
    event = _event(name, partial(set_link, up=False), partial(set_link, up=True), for_s, tried=not hangs_up)
    await_links()

    def undo() -> None:
        if event.undo is not None:
            event.undo()
        await_links()

    return replace(event, undo=undo)


# Polling threads.


@checked("events.change_pmd_cpus")
def change_pmd_cpus(live: Live, for_s: ForS = None) -> Event:
    """The DUT polls on all of its CPUs but the last (``pmd-cpu-mask``)."""
    *cpus, last = _several_cpus(live, "to poll on fewer")
    mask = hex(sum(1 << cpu for cpu in cpus))
    return _setting(live, f"no polling on CPU {last}", "pmd-cpu-mask", mask, for_s=for_s)


@checked("events.move_rxqs")
def move_rxqs(live: Live, port: Name, for_s: ForS = None) -> Event:
    """The receive queues of a port move to another of the DUT's CPUs, which then polls no others (pmd-rxq-affinity)."""
    bridge = _bridge_of("move_rxqs", live, port)
    cpus = _several_cpus(live, f"to move the queues of port {port!r}")
    interface = live.deployment.built.on(bridge).interfaces_of(port)[0]
    queues: dict[int, list[str]] = {cpu: [] for cpu in cpus}
    for thread in _pmd_threads(live):
        queues[_core(thread)] += re.findall(rf"port: *{re.escape(interface)} +queue-id: *(\d+)", thread)
    free = [cpu for cpu, there in queues.items() if not there]
    if not free:
        raise UnavailableError(f"the queues of port {port!r} are on all CPUs that the DUT polls on, and cannot move")
    affinity = ",".join(f"{queue}:{free[-1]}" for there in queues.values() for queue in there)
    return _setting(live, f"queues of {port} moved", "pmd-rxq-affinity", affinity, (bridge, interface), for_s)


@checked("events.rebalance_rxqs")
def rebalance_rxqs(live: Live, *, auto: bool = False) -> Event:
    """OVS assigns receive queues to polling threads by their load: once, or from now on (``pmd-auto-lb``)."""
    if auto:
        _several_cpus(live, "to balance queues")
        return _setting(live, "auto-balance on", "pmd-auto-lb", "true")
    if not _pmd_threads(live):
        raise UnavailableError("the DUT has no polling threads: its main thread reads all ports")
    ovs = live.deployment.built.ovs
    return Event("queues rebalanced", EVENT_AT_S, partial(ovs, "appctl", "dpif-netdev/pmd-rxq-rebalance"))


def _pmd_threads(live: LiveTopology) -> list[str]:
    """What OVS says of each polling thread and its queues."""
    if live.datapath_kind == "system":
        raise UnavailableError("the kernel forwards, and has no polling threads")
    shown = live.deployment.built.ovs("appctl", "dpif-netdev/pmd-rxq-show")
    return [thread for thread in re.split(r"^pmd thread ", shown, flags=re.MULTILINE) if "core_id" in thread]


def _core(thread: str) -> int:
    return int(thread.split("core_id", 1)[1].split(":", 1)[0])


def _several_cpus(live: LiveTopology, purpose: str) -> list[int]:
    """The CPUs that the DUT polls on; UnavailableError if there are fewer than two."""
    cpus = sorted(set(map(_core, _pmd_threads(live))))
    if len(cpus) < 2:
        where = f"CPU {cpus[0]} alone" if cpus else "no CPU"
        raise UnavailableError(f"the DUT polls on {where}: {purpose} it needs two (cpus.pmd of a testbed file)")
    return cpus


def _setting(
    live: LiveTopology, name: str, key: str, value: str, port: Sequence[str] = (), for_s: float | None = None
) -> Event:
    """A key of ``other_config`` gets another value. ``port``: its bridge and interface; without, of Open_vSwitch."""
    ovs = live.deployment.built.on(port[0]).ovs if port else live.deployment.built.ovs
    record = ("Interface", port[1]) if port else ("Open_vSwitch", ".")
    before = ovs("vsctl", "--if-exists", "get", *record, f"other_config:{key}").strip()
    undo = partial(ovs, "vsctl", "remove", *record, "other_config", key)
    if before:  # in quotes, as vsctl reads it again
        undo = partial(ovs, "vsctl", "set", *record, f"other_config:{key}={before}")
    return _event(name, partial(ovs, "vsctl", "set", *record, f'other_config:{key}="{value}"'), undo, for_s)


# Tunnels.


@checked("events.cut_tunnel")
def cut_tunnel(
    live: Live, tunnel: Name, every_ms: Annotated[int, whole(10, 60_000)] = 100, for_s: ForS = None
) -> Event:
    """BFD watches a tunnel between two nodes, and its underlay drops all frames; it returns when both ends see it down.

    ``tunnel``: one of its two ports. ``every_ms``: from one of BFD's messages to the next; three missing ones are down.
    """
    _bridge_of("cut_tunnel", live, tunnel)
    built, pairs = live.deployment.built, overlays(live.topology.nodes, live.topology.tunnels, live.topology.underlays)
    overlay = next((one for one in pairs if tunnel in {one.port_a, one.port_b}), None)
    if overlay is None:
        raise UnavailableError(f"port {tunnel!r} of topology {live.name!r} is no tunnel between two nodes")
    ends = [(built.on(end.bridge), end.port) for end in overlay.ends]
    before = [end.ovs("vsctl", "get", "Interface", port, "bfd").strip() for end, port in ends]
    setting = ("bfd:enable=true", f"bfd:min_tx={every_ms}", f"bfd:min_rx={every_ms}")
    underlay = overlay.underlay.bridge_a

    def watch() -> None:
        for end, port in ends:
            end.ovs("vsctl", "set", "Interface", port, *setting)
        _await_bfd(ends, up=True)

    def act() -> None:
        watch()
        built.ovs("ofctl", "add-flow", underlay, _DROP_ALL)
        _await_bfd(ends, up=False)

    def undo() -> None:
        built.ovs("ofctl", "del-flows", underlay, "--strict", _DROP_ALL.partition(",")[0])
        _await_bfd(ends, up=True)
        for (end, port), earlier in zip(ends, before, strict=True):
            end.ovs("vsctl", "set", "Interface", port, f"bfd={earlier}")

    watch()
    return _event(f"tunnel {tunnel} cut", act, undo, for_s)


def _await_bfd(ends: Sequence[tuple[BuiltTopology, str]], *, up: bool) -> None:
    deadline = time.monotonic() + _TUNNEL_DEADLINE_S
    while any(("Local Session State: up" in end.ovs("appctl", "bfd/show", port)) is not up for end, port in ends):
        if time.monotonic() > deadline:
            shown = {port: end.ovs("appctl", "bfd/show", port) for end, port in ends}
            what = f"BFD of {listed(shown)} to be {'up' if up else 'down'}"
            raise DeadlineError(f"waited {_TUNNEL_DEADLINE_S:g} s for {what}", evidence=shown)
        time.sleep(_POLL_S)
