"""FRR's configuration files from a SpeakerConfig: one for each daemon."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_nfvperf.model.routing.bgp import Family, Neighbor, Policy, SpeakerConfig, family_of

_COMMON = ("hostname nfvperf", "log timestamp precision 3")
_IP = {Family.IPV4: "ip", Family.IPV6: "ipv6"}


def configuration(config: SpeakerConfig) -> dict[str, str]:
    """The text of each daemon's file, by the daemon's name."""
    files = {"zebra": [*_COMMON], "bgpd": [*_COMMON, *_bgpd(config)]}
    if any(neighbor.bfd is not None for neighbor in config.neighbors):
        files["bfdd"] = [*_COMMON, *_bfdd(config)]
    return {daemon: "\n".join(lines) + "\n" for daemon, lines in files.items()}


def static_route(prefix: str) -> str:
    """A route to nowhere, as FRR is told of one. Where frames really go the datapath decides."""
    return f"{_IP[family_of(prefix)]} route {prefix} blackhole"


def network(asn: int, prefix: str, *, undo: bool = False) -> tuple[str, ...]:
    """What bgpd announces a prefix by, from its ``configure terminal`` on; ``undo``: no longer."""
    statement = f"network {prefix}"
    within = (f"router bgp {asn}", f"address-family {family_of(prefix)} unicast")
    return (*within, f"no {statement}" if undo else statement, "exit-address-family", "exit")


def _bfdd(config: SpeakerConfig) -> Iterator[str]:
    yield "debug bfd peer"  # each change of a session's state, and why
    yield "bfd"
    for neighbor in config.neighbors:
        if neighbor.bfd is not None:
            yield f" profile {_label(neighbor)}"
            yield f"  detect-multiplier {neighbor.bfd.multiplier}"
            yield f"  receive-interval {neighbor.bfd.interval_ms}"
            yield f"  transmit-interval {neighbor.bfd.interval_ms}"


def _bgpd(config: SpeakerConfig) -> Iterator[str]:
    for neighbor in config.neighbors:
        for way, policy in (("in", neighbor.accepts), ("out", neighbor.sends)):
            yield from _route_map(f"{way}-{_label(neighbor)}", policy)
    yield f"router bgp {config.asn}"
    yield f" bgp router-id {config.router_id}"
    yield " bgp log-neighbor-changes"
    yield " no bgp default ipv4-unicast"
    yield " no bgp ebgp-requires-policy"  # policies are ours to say: none means all
    yield " no bgp network import-check"  # a prefix is announced when we say so, not when zebra has told its route
    if config.graceful_restart:
        yield " bgp graceful-restart"
        yield " bgp graceful-restart preserve-fw-state"
        yield f" bgp graceful-restart restart-time {max(n.timers.restart_s for n in config.neighbors)}"
    for neighbor in config.neighbors:
        yield from _neighbor(neighbor)
    for family in Family:
        yield from _family(config, family)


def _neighbor(neighbor: Neighbor) -> Iterator[str]:
    name, timers = f" neighbor {neighbor.address}", neighbor.timers
    yield f"{name} remote-as {neighbor.asn}"
    yield f"{name} timers {timers.keepalive_s} {timers.hold_s}"
    yield f"{name} timers connect {timers.connect_retry_s}"
    yield f"{name} advertisement-interval 0"
    if neighbor.password is not None:
        yield f"{name} password {neighbor.password}"
    if neighbor.bfd is not None:
        yield f"{name} bfd"
        yield f"{name} bfd profile {_label(neighbor)}"


def _family(config: SpeakerConfig, family: Family) -> Iterator[str]:
    carrying = [neighbor for neighbor in config.neighbors if family in neighbor.carried]
    announced = [prefix for prefix in config.announced if family_of(prefix) is family]
    if not carrying and not announced:
        return
    yield f" address-family {family} unicast"
    yield from (f"  network {prefix}" for prefix in announced)
    for neighbor in carrying:
        yield f"  neighbor {neighbor.address} activate"
        yield f"  neighbor {neighbor.address} route-map in-{_label(neighbor)} in"
        yield f"  neighbor {neighbor.address} route-map out-{_label(neighbor)} out"
    yield " exit-address-family"


def _route_map(name: str, policy: Policy) -> Iterator[str]:
    """What no entry permits is denied; each family has lists of its own."""
    passed = (
        [None] if policy.prefixes is None else [f for f in Family if any(family_of(p) is f for p in policy.prefixes)]
    )
    for prefix in policy.prefixes or ():
        longest = 32 if family_of(prefix) is Family.IPV4 else 128
        more_specific = "" if prefix.endswith(f"/{longest}") else f" le {longest}"
        yield f"{_IP[family_of(prefix)]} prefix-list {name} permit {prefix}{more_specific}"
    if not passed:
        yield f"route-map {name} deny 10"
    for number, family in enumerate(passed, start=1):
        yield f"route-map {name} permit {10 * number}"
        if family is not None:
            yield f" match {_IP[family]} address prefix-list {name}"
        if policy.local_preference is not None:
            yield f" set local-preference {policy.local_preference}"
        if policy.med is not None:
            yield f" set metric {policy.med}"
    yield "exit"


def _label(neighbor: Neighbor) -> str:
    return neighbor.address.replace(":", "-")
