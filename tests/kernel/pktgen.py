"""The kernel's own packet generator (Documentation/networking/pktgen.rst), in a namespace of the guest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.net.threads import PROC_NET, inside_netns
from pytest_nfvperf.model.errors import TestbedError

_PKTGEN = PROC_NET / "pktgen"
_FCS_BYTES = 4
_SOFAR = re.compile(r"pkts-sofar: (?P<sent>\d+)\s+errors: (?P<errors>\d+)")
_RESULT = re.compile(r"Result: OK: \d+\(c(?P<busy>\d+)\+d\d+\) usec")


@dataclass(frozen=True, slots=True)
class Sent:
    """One run of pktgen.

    Attributes:
        packets: handed to the interface.
        errors: those that it did not take.
        busy_us: time without idle, with the softirqs that interrupted it.
    """

    packets: int
    errors: int
    busy_us: int


@dataclass(frozen=True, slots=True)
class Flow:
    """What is sent: UDP to an address. ``frame_size``: bytes with FCS. ``gap_ns``: between the starts of packets."""

    packets: int
    gap_ns: int
    frame_size: int
    destination_mac: str
    destination: str


def send(namespace: str, interface: str, flow: Flow) -> Sent:
    """Send at a steady pace out of an interface of the namespace, on the first CPU, to the end.

    Raises:
        TestbedError: pktgen refused, or did not finish; with its own report.
    """
    return inside_netns(namespace, lambda: _send(interface, flow))


def _send(interface: str, flow: Flow) -> Sent:
    device = _PKTGEN / interface
    _tell(_PKTGEN / "kpktgend_0", "rem_device_all")
    _tell(_PKTGEN / "kpktgend_0", f"add_device {interface}")
    for setting in (
        f"count {flow.packets}",
        f"delay {flow.gap_ns}",
        f"pkt_size {flow.frame_size - _FCS_BYTES}",
        f"dst_mac {flow.destination_mac}",
        f"dst {flow.destination}",
    ):
        _tell(device, setting)
    _tell(_PKTGEN / "pgctrl", "start")  # returns when all is sent
    return parse_report(device.read_text(encoding="ascii"))


def _tell(file: Path, command: str) -> None:
    try:
        file.write_text(f"{command}\n", encoding="ascii")
    except OSError as error:
        raise TestbedError(f"pktgen: {file} refused {command!r}: {error.strerror}; is the module loaded?") from error


def parse_report(report: str) -> Sent:
    """Read what pktgen says of a device after a run; TestbedError when that was not finished."""
    sofar, result = _SOFAR.search(report), _RESULT.search(report)
    if sofar is None or result is None:
        raise TestbedError("pktgen did not finish", evidence={"pktgen": report})
    return Sent(int(sofar["sent"]), int(sofar["errors"]), int(result["busy"]))


def received(namespace: str, interface: str) -> int:
    """Packets that an interface of the namespace has received.

    Raises:
        TestbedError: there is no such interface; names those that are there.
    """
    lines = inside_netns(namespace, lambda: (PROC_NET / "dev").read_text(encoding="ascii")).splitlines()[2:]
    counters = {name.strip(): rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    if interface not in counters:
        raise TestbedError(f"namespace {namespace} has no {interface}, only {', '.join(counters)}")
    return int(counters[interface][1])
