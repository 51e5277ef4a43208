"""BIRD 2's configuration from a SpeakerConfig. Routes that it originates are in files of their own, included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_nfvperf.model.routing.bgp import BfdTimers, Family, Neighbor, Policy, SpeakerConfig, family_of

ROUTES = {family: f"routes-{family}.conf" for family in Family}
"""Names of the files with routes, by family."""

_LONGEST = {Family.IPV4: 32, Family.IPV6: 128}


def protocol_name(number: int) -> str:
    """BIRD's name for the session with neighbour ``number``, counted from 0."""
    return f"peer{number}"


def configuration(config: SpeakerConfig, directory: Path) -> str:
    """The text of bird.conf, with its log and its route files in this directory."""
    lines = [
        f"router id {config.router_id};",
        "log stderr all;",
        "debug protocols { events };",  # it counts no flaps: its log tells them
        "timeformat protocol iso long ms;",
        "protocol device { scan time 1; }",
        *_graceful(config),
    ]
    for family in Family:
        # include begins a line of its own (BIRD 2 user's guide, "Configuration")
        lines += [
            f"protocol static own_{family} {{ {family};",
            f'include "{directory / ROUTES[family]}";',
            "}",
            f"protocol kernel kernel_{family} {{ {family} {{ import none; export none; }}; }}",
        ]
    lines += [_bfd(timers) for timers in {neighbor.bfd for neighbor in config.neighbors if neighbor.bfd is not None}]
    for number, neighbor in enumerate(config.neighbors):
        lines += _session(config, neighbor, protocol_name(number))
    return "\n".join(lines) + "\n"


def _bfd(timers: BfdTimers) -> str:
    intervals = " ".join(f"{which} interval {timers.interval_ms} ms;" for which in ("min rx", "min tx", "idle tx"))
    return f'protocol bfd {{ interface "*" {{ {intervals} multiplier {timers.multiplier}; }}; }}'


def _graceful(config: SpeakerConfig) -> list[str]:
    if not config.graceful_restart:
        return []
    return [f"graceful restart wait {max(neighbor.timers.restart_s for neighbor in config.neighbors)};"]


def routes(prefixes: Sequence[str], family: Family) -> str:
    """The text of a family's route file."""
    return "".join(f"route {prefix} blackhole;\n" for prefix in prefixes if family_of(prefix) is family)


def _session(config: SpeakerConfig, neighbor: Neighbor, name: str) -> Iterator[str]:
    timers = neighbor.timers
    yield f"protocol bgp {name} {{"
    yield f"  local as {config.asn};"
    yield f"  neighbor {neighbor.address} as {neighbor.asn};"
    yield f"  hold time {timers.hold_s}; keepalive time {timers.keepalive_s};"
    yield f"  connect delay time {timers.connect_retry_s}; connect retry time {timers.connect_retry_s};"
    yield "  error wait time 1, 1; error forget time 1;"
    if neighbor.password is not None:
        yield f'  password "{neighbor.password}";'
    if neighbor.bfd is not None:
        yield "  bfd on;"
    if config.graceful_restart:
        yield f"  graceful restart on; graceful restart time {timers.restart_s};"
    for family in neighbor.carried:
        accepts = _filter(neighbor.accepts, family, "true")
        sends = _filter(neighbor.sends, family, f'proto = "own_{family}" || source = RTS_BGP')
        yield f"  {family} {{ import {accepts}; export {sends}; }};"
    yield "}"


def _filter(policy: Policy, family: Family, candidates: str) -> str:
    passes = f"({candidates})"
    if policy.prefixes is not None:
        mine = [prefix for prefix in policy.prefixes if family_of(prefix) is family]
        patterns = ", ".join(f"{prefix}{{{prefix.partition('/')[2]},{_LONGEST[family]}}}" for prefix in mine)
        passes += f" && net ~ [ {patterns} ]" if mine else " && false"
    sets = ""
    if policy.local_preference is not None:
        sets += f"bgp_local_pref = {policy.local_preference}; "
    if policy.med is not None:
        sets += f"bgp_med = {policy.med}; "
    return f"filter {{ if {passes} then {{ {sets}accept; }} reject; }}"
