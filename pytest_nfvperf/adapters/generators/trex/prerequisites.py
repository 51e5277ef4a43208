"""What a TRex that we start needs on this machine: its program, the namespace, interfaces that are there and up."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute

from pytest_nfvperf.adapters.net.ends import OURS
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import TrexStart

DUMMY = "dummy"
"""Stands in the list of interfaces for a port that is none."""

_NORMAL_CPUS = 3
_UP = 0x1  # IFF_UP, linux/if.h


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that is not there. ``key``: where the testbed file names it. ``advice``: what to do."""

    key: str
    what: str
    advice: str


def binary_of(start: TrexStart) -> Path:
    """The program that is started: its script binds NICs to DPDK, which virtual ports do not need."""
    return Path(start.path) / ("t-rex-64" if start.driver == "pci" else "_t-rex-64")


def namespace_of(start: TrexStart) -> Path:
    """The file of the network namespace that it runs in."""
    return OURS if start.netns is None else NETNS_DIRECTORY / start.netns


def kernel_interfaces(start: TrexStart) -> tuple[str, ...]:
    """Those of its interfaces that the kernel has."""
    return tuple(name for name in start.interfaces if name != DUMMY) if start.driver == "af_packet" else ()


def missing(start: TrexStart) -> Iterator[Missing]:
    """What a start would fail for. Starts nothing."""
    binary = binary_of(start)
    if not binary.is_file():
        yield Missing(
            "path", f"no TRex is installed there: {binary} is missing", f"name the directory of {binary.name}"
        )
    elif not os.access(binary, os.X_OK):
        yield Missing("path", f"{binary} cannot be executed", f"chmod +x {binary}")
    cpus = len(os.sched_getaffinity(0))
    if cpus < _NORMAL_CPUS and not start.low_end:
        yield Missing(
            "low_end",
            f"TRex needs {_NORMAL_CPUS} CPUs, and this machine has {cpus}",
            "write 'low_end: true', which shares them",
        )
    namespace = namespace_of(start)
    if not namespace.exists():
        yield Missing("netns", f"there is no network namespace {start.netns!r}", f"ip netns add {start.netns}")
        return
    yield from _missing_interfaces(start, namespace)


def check(start: TrexStart) -> None:
    """ConfigError for the first thing that is missing."""
    for one in missing(start):
        raise ConfigError(f"{one.what}: {one.advice}", key=f"generator.trex.start.{one.key}")


def _missing_interfaces(start: TrexStart, namespace: Path) -> Iterator[Missing]:
    there = inside(namespace, _interfaces)
    where = "this machine" if start.netns is None else f"namespace {start.netns!r}"
    for name in kernel_interfaces(start):
        if name not in there:
            listed = ", ".join(sorted(set(there) - {"lo"})) or "none"
            yield Missing(
                "interfaces",
                f"{where} has no interface {name!r} (there are: {listed})",
                "make it before the run, or correct the name",
            )
        elif not there[name]:
            yield Missing("interfaces", f"interface {name!r} in {where} is down", _up(name, start.netns))


def _up(interface: str, netns: str | None) -> str:
    """The command that brings it up."""
    return f"ip {f'-n {netns} ' if netns else ''}link set {interface} up"


def _interfaces() -> dict[str, bool]:
    """The interfaces of the namespace that the thread is in, and which are up."""
    with IPRoute() as links:
        flags = {socket.if_indextoname(link["index"]): int(link["flags"]) for link in links.get_links()}
    return {name: bool(value & _UP) for name, value in flags.items()}
