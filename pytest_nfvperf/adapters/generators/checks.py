"""Parts that generators share: attached ports, checks of what users ask for, waits for links."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_nfvperf.adapters.net.cabling import interface_of
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, GeneratorError, UnavailableError
from pytest_nfvperf.model.topology.ports import PortRole, VnfMode
from pytest_nfvperf.model.traffic.mix import AnyTraffic, classes_of, steps_of
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES, HEADER_BYTES, MAX_FRAME_SIZE, Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import Generator, GeneratorPort

MIN_MTU = 68
"""RFC 791: the smallest IPv4 MTU."""
MAX_MTU = MAX_FRAME_SIZE - HEADER_BYTES - FCS_BYTES
MOST_STREAMS = 64
"""That the embedded engine sends in one trial (native/sizes.h)."""
_SHOWN = 4000
_INTERFACES = Path("/sys/class/net")


class AttachingGenerator(Generator):
    """A Generator that needs no more of a port than its description. ``_ports``: those attached, by name."""

    def __init__(self) -> None:
        self._ports: dict[str, GeneratorPort] = {}
        self._closed = False

    def attach(self, ports: Sequence[GeneratorPort]) -> None:
        self.check_open()
        check_new_ports(self._ports, ports)
        self._ports.update((port.name, port) for port in ports)

    def detach(self, names: Sequence[str]) -> None:
        self.check_open()
        for name in names:
            self._ports.pop(name, None)

    def close(self) -> None:
        self._closed = True
        self._ports.clear()

    def check_open(self) -> None:
        if self._closed:
            raise GeneratorError("the generator is closed")


@contextmanager
def parsing_answer(who: str, answer: object) -> Iterator[None]:
    """Report a missing field or a wrong type in another program's answer as that program's fault: a GeneratorError.

    ``who``: the program that answered, such as "TRex server 192.0.2.1". ``answer``: all of it, as evidence.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        why = f"{error} is missing in it" if isinstance(error, KeyError) else str(error)
        raise GeneratorError(
            f"{who} answered what cannot be read: {why}",
            evidence={"its answer": json.dumps(answer, default=repr)[:_SHOWN]},
        ) from error


def check_new_ports(attached: Mapping[str, GeneratorPort], ports: Sequence[GeneratorPort]) -> None:
    """Raise ConfigError for a name attached twice, an MTU out of range, or a forwarder without a destination."""
    known = dict(attached)
    for port in ports:
        if port.name in known:
            raise ConfigError(
                f"port {port.name!r} is attached twice; detach it first, or give the ports distinct names"
            )
        if not MIN_MTU <= port.mtu <= MAX_MTU:
            raise ConfigError(f"port {port.name!r}: MTU {port.mtu} is outside {MIN_MTU}..{MAX_MTU} bytes")
        known[port.name] = port
    for port in ports:
        if port.role is PortRole.HOST and (port.peer not in known or known[port.peer].role is not PortRole.ENDPOINT):
            raise ConfigError(
                f"host {port.name!r} is behind {port.peer!r}, which is no attached endpoint{_known(known)}"
            )
        if port.role is PortRole.FORWARDER and port.peer not in known:
            raise ConfigError(f"port {port.name!r} forwards to {port.peer!r}, which is not attached{_known(known)}")
        if port.role is PortRole.FORWARDER and port.vnf_mode is VnfMode.MAC and port.eth_peer is None:
            raise ConfigError(f"port {port.name!r} forwards in mode mac, which needs eth_peer: the MAC to send to")


def check_directions(
    attached: Mapping[str, GeneratorPort], directions: Iterable[Direction], *, to_many: bool = False
) -> None:
    """Raise ConfigError for a direction whose ends are not attached endpoints, or a sender that two directions share.

    ``to_many``: they may, and all their receivers count the same frames.
    """
    in_use: set[str] = set()
    for direction in directions:
        for end in (direction.tx, direction.rx):
            port = attached.get(end)
            if port is None:
                raise ConfigError(f"direction {direction} uses {end!r}, which is not attached{_known(attached)}")
            if port.role is not PortRole.ENDPOINT:
                raise ConfigError(f"direction {direction} uses {end!r}, which is a {port.role}, not an endpoint")
        if direction.tx in in_use and not to_many:
            raise ConfigError(f"two directions send on port {direction.tx!r}; give each direction a port of its own")
        in_use.add(direction.tx)


def check_traffic(attached: Mapping[str, GeneratorPort], traffic: AnyTraffic, directions: Sequence[Direction]) -> None:
    """Raise ConfigError if a frame does not fit the MTU of a port on its path, or the classes need too many streams."""
    classes = classes_of(traffic)
    streams = sum(max(1, len(steps_of(each.traffic))) for each in classes) * len(directions)
    if streams > MOST_STREAMS:
        raise ConfigError(
            f"{len(classes)} classes in {len(directions)} directions are {streams} streams, and {MOST_STREAMS} can be "
            "sent at once: send fewer classes, or in fewer directions, or shorter conversations"
        )
    for each in classes:
        _check_class(attached, each.traffic, directions)


def _check_class(attached: Mapping[str, GeneratorPort], traffic: Traffic, directions: Sequence[Direction]) -> None:
    for direction in directions:
        for end in (direction.tx, direction.rx):
            fits = attached[end].mtu + traffic.bytes_beyond_mtu
            if traffic.largest_frame_size > fits:
                raise ConfigError(
                    f"frames of {traffic.largest_frame_size} bytes do not fit port {end!r}, whose MTU of "
                    f"{attached[end].mtu} carries {fits} bytes with FCS; raise the port's MTU or send smaller frames"
                )


def check_spec(attached: Mapping[str, GeneratorPort], spec: TrialSpec, *, to_many: bool = False) -> None:
    check_directions(attached, spec.directions, to_many=to_many)
    check_traffic(attached, spec.traffic, spec.directions)


def refuse_conversations(traffic: AnyTraffic, engine: str) -> None:
    """Raise UnavailableError for a traffic whose frames answer one another, for an engine that cannot have it."""
    if name := next((each.traffic.headers_name for each in classes_of(traffic) if steps_of(each.traffic)), ""):
        raise UnavailableError(f"{engine} answers no frames, as {name} needs: use the embedded engine")


def wait_for_links(
    links_down: Callable[[], Sequence[str]],
    awaited: str,
    deadline_s: float,
    *,
    interval_s: float,
    log_tail: Callable[[], str],
) -> None:
    """Wait until ``links_down`` names no port; DeadlineError with the ports that have no link, and the engine's log."""
    down: Sequence[str] = ()

    def all_up() -> bool:
        nonlocal down
        down = links_down()
        return not down

    try:
        wait_until(
            all_up, awaited, deadline_s, interval_s=interval_s, last_seen=lambda: f"no link on {', '.join(down)}"
        )
    except DeadlineError as error:
        error.evidence["generator log"] = log_tail()
        raise


def link_reasons(down: Sequence[str]) -> list[InvalidReason]:
    """The reason against a trial after which these ports had no link."""
    return [InvalidReason(Reason.LINK_DOWN, f"no link after the trial on: {', '.join(down)}")] if down else []


def carrier_losses(ports: Mapping[str, GeneratorPort]) -> dict[str, int]:
    """How often each port's kernel interface lost its link so far; ports without one are absent."""
    losses = {}
    for name, port in ports.items():
        interface = interface_of(port.device)
        if interface:
            with suppress(OSError, ValueError):
                losses[f"{name} ({interface})"] = int((_INTERFACES / interface / "carrier_down_count").read_text())
    return losses


def carrier_reasons(before: Mapping[str, int], after: Mapping[str, int]) -> list[InvalidReason]:
    """Reasons against a trial in which a kernel interface of the generator's lost its link."""
    return [
        InvalidReason(Reason.LINK_DOWN, f"the generator's port {name} lost its link {after[name] - count}x meanwhile")
        for name, count in before.items()
        if after.get(name, count) > count
    ]


def _known(ports: Mapping[str, GeneratorPort]) -> str:
    return f" (attached: {', '.join(sorted(ports))})" if ports else " (no port is attached)"
