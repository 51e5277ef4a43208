"""Changes to a DUT while frames flow: flows, groups, meters, ports, links, polling threads, tunnels.

Each event's ``undo`` leaves the DUT as it was before ``act``. With ``for_s`` it is undone within the trial, so many
seconds after the DUT has taken the change; else after the trial.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from pytest_nfvperf.measure.call_arguments import Live
from pytest_nfvperf.measure.events import EVENT_AT_S, Event
from pytest_nfvperf.measure.rig import LINK_DEADLINE_S, LiveTopology
from pytest_nfvperf.model.arguments import Name, checked, number, whole
from pytest_nfvperf.model.display import listed
from pytest_nfvperf.model.errors import ArgumentError, DeadlineError, UnavailableError
from pytest_nfvperf.model.topology.links import overlays
from pytest_nfvperf.model.topology.topology import all_ports
from pytest_nfvperf.ports.datapath import BuiltTopology

_MOST_FLOWS = 1_000_000
_UNUSED = int(ipaddress.IPv4Address("100.96.0.0"))
"""Of RFC 6598's shared addresses: neither the generator nor an access list of ours has those above."""

_ADDED_PORT = "nfv-added"
_NOBODY = "/run/nfvperf-nobody.sock"
"""A vhost-user socket at which nobody listens: what a port has before its VM starts."""

_DROP_ALL = "priority=65535,actions=drop"
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
    return Event(name, EVENT_AT_S, change, undo_once)


def _bridge_of(call: str, live: LiveTopology, port: str) -> str:
    bridges = {name: bridge for bridge, name in all_ports(live.topology)}
    if port not in bridges:
        raise ArgumentError(f"{call}(): topology {live.name!r} has no port {port!r}: write one of {listed(bridges)}")
    return bridges[port]


def _sending_bridge(call: str, live: LiveTopology, bridge: str | None) -> str:
    """This bridge, or the one that the first direction's frames enter."""
    if bridge is None and live.topology.directions:
        return _bridge_of(call, live, live.topology.directions[0].tx)
    if bridge not in live.topology.bridges:
        known = listed(live.topology.bridges)
        raise ArgumentError(f"{call}(): topology {live.name!r} has no bridge {bridge!r}: write one of {known}")
    return bridge


# Flows, groups and meters.


@checked()
def replace_flows(live: Live, bridge: Name | None = None, *, bundle: bool = False) -> Event:
    """Every flow of a bridge is replaced by the same one again, as by an agent that restarts.

    ``bridge``: None: the one that frames enter; ``rules(bridge, acl=100_000)`` gives it flows that no frame matches.
    ``bundle``: all take effect at once (``ovs-ofctl --bundle``): OVS treats an ordered bundle as an atomic one.
    """
    bridge = _sending_bridge("replace_flows", live, bridge)
    built, own = live.deployment.built, _flows_of(live, bridge)
    return Event("replace_flows", EVENT_AT_S, partial(_add_flows, built, bridge, own, bundle=bundle))


@checked()
def add_flows(
    live: Live,
    flows: Annotated[int, whole(1, _MOST_FLOWS)] = 1000,
    bridge: Name | None = None,
    *,
    bundle: bool = False,
    for_s: ForS = None,
) -> Event:
    """So many flows are added to a bridge that no frame matches: UDP to addresses that nobody uses is dropped."""
    bridge = _sending_bridge("add_flows", live, bridge)
    built, own = live.deployment.built, _flows_of(live, bridge)
    addresses = map(ipaddress.IPv4Address, range(_UNUSED, _UNUSED + flows))
    added = [f"priority=2,udp,nw_dst={address},actions=drop" for address in addresses]
    undo = partial(built.ovs, "ofctl", "replace-flows", bridge, "--bundle", "-", lines=own)
    return _event("add_flows", partial(_add_flows, built, bridge, added, bundle=bundle), undo, for_s)


def _flows_of(live: LiveTopology, bridge: str) -> list[str]:
    """A bridge's flows as ovs-ofctl(8) reads them; UnavailableError where a service would undo what we do to them."""
    if any(service.owns_flows for service in live.deployment.services):
        raise UnavailableError(f"the flows of bridge {bridge!r} are those of a service, which would undo a change")
    dump = live.deployment.built.ovs("ofctl", "dump-flows", bridge, "--no-stats")
    return [line.strip().replace(" actions=", ",actions=", 1) for line in dump.splitlines() if " actions=" in line]


def _add_flows(built: BuiltTopology, bridge: str, flows: Sequence[str], *, bundle: bool) -> None:
    built.ovs("ofctl", "add-flows", bridge, *(("--bundle",) if bundle else ()), "-", lines=flows)


@checked()
def change_rule(live: Live, line: Name, for_s: ForS = None) -> Event:
    """A group or meter of the topology's rules is replaced by another: ``"meter=3,kbps,bands=type=drop,rate=1000"``.

    ArgumentError for one that no bridge has, or that OVS refuses.
    """
    ovs, numbered = live.deployment.built.ovs, re.match(r"(group_id|meter)=\d+\b", line)
    if numbered is None:
        raise ArgumentError(f"change_rule(): {line!r} does not begin with group_id=NUMBER or meter=NUMBER")
    key, kind = numbered[1], numbered[1].removesuffix("_id")
    found: dict[str, str] = {}  # by bridge
    for bridge in live.topology.bridges:
        dump = " ".join(ovs("ofctl", f"dump-{kind}s", bridge).split())
        for entry in re.split(rf" (?={key}=\d)", dump)[1:]:
            if re.match(rf"{numbered[0]}\b", entry):
                found[bridge] = entry.replace("bands= ", "bands=")
    if not found:
        raise ArgumentError(
            f"change_rule(): no bridge of topology {live.name!r} has {numbered[0]}: add it by rules(...)"
        )

    def change(*, back: bool) -> None:
        for bridge, before in found.items():
            ovs("ofctl", f"mod-{kind}", bridge, before if back else line)

    return _event("change_rule", partial(change, back=False), partial(change, back=True), for_s, tried=True)


# Ports and links.


@checked()
def add_port(live: Live, bridge: Name | None = None, for_s: ForS = None) -> Event:
    """A port is added to a bridge, and deleted: with DPDK a vhost-user port without its VM, else an internal port."""
    bridge = _sending_bridge("add_port", live, bridge)
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
    return _event("add_port", act, undo, for_s)


@checked()
def link_down(live: Live, port: Name, for_s: ForS = None) -> Event:
    """A port loses its link, of a bond a member does; and has it again. UnavailableError where that cannot be done."""
    built = live.deployment.built.on(_bridge_of("link_down", live, port))
    act, undo = partial(built.set_link, port, up=False), partial(built.set_link, port, up=True)
    event = _event("link_down", act, undo, for_s, tried=True)
    built.wait_ready(LINK_DEADLINE_S)
    return event


# Polling threads.


@checked()
def change_pmd_cpus(live: Live, cpus: Sequence[Annotated[int, whole(0)]] | None = None, for_s: ForS = None) -> Event:
    """The DUT polls on some of its CPUs only (``pmd-cpu-mask``); ``cpus``: None: on all but the last."""
    has = _several_cpus(live, "to poll on fewer")
    cpus = has[:-1] if cpus is None else cpus
    if not cpus or not set(cpus) < set(has):
        raise ArgumentError(f"change_pmd_cpus(): cpus is {list(cpus)}: write some of those that the DUT has, {has}")
    return _setting(live, "change_pmd_cpus", "pmd-cpu-mask", hex(sum(1 << cpu for cpu in cpus)), for_s=for_s)


@checked()
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
    return _setting(live, "move_rxqs", "pmd-rxq-affinity", affinity, (bridge, interface), for_s)


@checked()
def rebalance_rxqs(live: Live) -> Event:
    """Receive queues are assigned to polling threads anew, by the load they had (``dpif-netdev/pmd-rxq-rebalance``)."""
    if not _pmd_threads(live):
        raise UnavailableError("the DUT has no polling threads: its main thread reads all ports")
    ovs = live.deployment.built.ovs
    return Event("rebalance_rxqs", EVENT_AT_S, partial(ovs, "appctl", "dpif-netdev/pmd-rxq-rebalance"))


@checked()
def auto_balance(live: Live, for_s: ForS = None) -> Event:
    """OVS balances receive queues by itself (``pmd-auto-lb``); it looks at the load for a minute first."""
    _several_cpus(live, "to balance queues")
    return _setting(live, "auto_balance", "pmd-auto-lb", "true", for_s=for_s)


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
    live: LiveTopology,
    name: str,
    key: str,
    value: str,
    interface: tuple[str, str] | None = None,
    for_s: float | None = None,
) -> Event:
    """A key of ``other_config`` gets another value. ``interface``: with its bridge; None: a key of Open_vSwitch."""
    built = live.deployment.built if interface is None else live.deployment.built.on(interface[0])
    record = ("Open_vSwitch", ".") if interface is None else ("Interface", interface[1])
    before = built.ovs("vsctl", "--if-exists", "get", *record, f"other_config:{key}").strip()
    undo = partial(built.ovs, "vsctl", "remove", *record, "other_config", key)
    if before:  # in quotes, as vsctl reads it again
        undo = partial(built.ovs, "vsctl", "set", *record, f"other_config:{key}={before}")
    return _event(name, partial(built.ovs, "vsctl", "set", *record, f'other_config:{key}="{value}"'), undo, for_s)


# Tunnels.


@checked()
def cut_tunnel(
    live: Live, tunnel: Name, every_ms: Annotated[int, whole(10, 60_000)] = 100, for_s: ForS = None
) -> Event:
    """BFD watches a tunnel between two nodes, and its underlay drops all frames; it returns when both ends see it down.

    ``tunnel``: one of its two ports. ``every_ms``: from one of BFD's messages to the next; three missing ones are down.
    """
    _bridge_of("cut_tunnel", live, tunnel)
    topology, built = live.topology, live.deployment.built
    pairs = overlays(topology.nodes, topology.tunnels, topology.underlays)
    overlay = next((one for one in pairs if tunnel in {one.port_a, one.port_b}), None)
    if overlay is None:
        raise UnavailableError(f"port {tunnel!r} of topology {live.name!r} is no tunnel between two nodes")
    ends = [(built.on(end.bridge), end.port) for end in overlay.ends]
    before = [end.ovs("vsctl", "get", "Interface", port, "bfd").strip() for end, port in ends]
    timing = (f"bfd:min_tx={every_ms}", f"bfd:min_rx={every_ms}")
    underlay = overlay.underlay.bridge_a

    def watch() -> None:
        for end, port in ends:
            end.ovs("vsctl", "set", "Interface", port, "bfd:enable=true", *timing)
        _await_bfd(ends, up=True)

    def act() -> None:
        watch()
        built.ovs("ofctl", "add-flow", underlay, _DROP_ALL)
        _await_bfd(ends, up=False)

    def undo() -> None:
        built.ovs("ofctl", "del-flows", underlay, "--strict", _DROP_ALL.partition(",")[0])
        _await_bfd(ends, up=True)
        for (end, port), setting in zip(ends, before, strict=True):
            end.ovs("vsctl", "set", "Interface", port, f"bfd={setting}")

    watch()
    return _event("cut_tunnel", act, undo, for_s)


def _await_bfd(ends: Sequence[tuple[BuiltTopology, str]], *, up: bool) -> None:
    deadline = time.monotonic() + _TUNNEL_DEADLINE_S
    while any(("Local Session State: up" in end.ovs("appctl", "bfd/show", port)) is not up for end, port in ends):
        if time.monotonic() > deadline:
            shown = {port: end.ovs("appctl", "bfd/show", port) for end, port in ends}
            what = f"BFD of {listed(shown)} to be {'up' if up else 'down'}"
            raise DeadlineError(f"waited {_TUNNEL_DEADLINE_S:g} s for {what}", evidence=shown)
        time.sleep(_POLL_S)
