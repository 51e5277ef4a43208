"""The kernel's own packet generator (Documentation/networking/pktgen.rst), in a namespace of the guest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.net.inside import PROC_NET, inside
from pytest_nfvperf.model.errors import TestbedError

_PKTGEN = PROC_NET / "pktgen"
_FCS_BYTES = 4
_SOFAR = re.compile(r"pkts-sofar: (?P<sent>\d+)\s+errors: (?P<errors>\d+)")
_RESULT = re.compile(r"Result: OK: \d+\(c(?P<busy>\d+)\+d\d+\) usec")


@dataclass(frozen=True, slots=True)
class Sent:
    """One run of pktgen. ``busy_us``: its time without idle, with the softirqs that it was interrupted by."""

    packets: int
    busy_us: int


@dataclass(frozen=True, slots=True)
class Flow:
    """What is sent: UDP to an address. ``frame_size``: bytes with FCS."""

    packets: int
    frame_size: int
    destination_mac: str
    destination: str


def send(namespace: str, interface: str, flow: Flow) -> Sent:
    """Send back to back out of an interface of the namespace, on the first CPU, to the end.

    Raises:
        TestbedError: pktgen refused, or not all could be sent; with its own report.
    """
    return inside(namespace, lambda: _send(interface, flow))


def _send(interface: str, flow: Flow) -> Sent:
    device = _PKTGEN / interface
    _tell(_PKTGEN / "kpktgend_0", "rem_device_all")
    _tell(_PKTGEN / "kpktgend_0", f"add_device {interface}")
    for setting in (
        f"count {flow.packets}",
        "delay 0",
        f"pkt_size {flow.frame_size - _FCS_BYTES}",
        f"dst_mac {flow.destination_mac}",
        f"dst {flow.destination}",
    ):
        _tell(device, setting)
    _tell(_PKTGEN / "pgctrl", "start")  # returns when all is sent
    return parse_report(device.read_text(encoding="ascii"), flow.packets)


def _tell(file: Path, command: str) -> None:
    try:
        file.write_text(f"{command}\n", encoding="ascii")
    except OSError as error:
        raise TestbedError(f"pktgen: {file} refused {command!r}: {error.strerror}; is the module loaded?") from error


def parse_report(report: str, packets: int) -> Sent:
    """Read what pktgen says of a device after a run of so many packets; TestbedError when it sent other than that."""
    sofar, result = _SOFAR.search(report), _RESULT.search(report)
    if sofar is None or result is None or int(sofar["errors"]) or int(sofar["sent"]) != packets:
        raise TestbedError(f"pktgen did not send {packets} packets without an error", evidence={"pktgen": report})
    return Sent(packets, int(result["busy"]))


def received(namespace: str, interface: str) -> int:
    """Packets that an interface of the namespace has received.

    Raises:
        TestbedError: there is no such interface; names those that are there.
    """
    lines = inside(namespace, lambda: (PROC_NET / "dev").read_text(encoding="ascii")).splitlines()[2:]
    counters = {name.strip(): rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    if interface not in counters:
        raise TestbedError(f"namespace {namespace} has no {interface}, only {', '.join(counters)}")
    return int(counters[interface][1])
