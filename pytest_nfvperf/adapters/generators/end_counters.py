"""Counters around a stream measurement: the ends' interfaces and protocols, softirqs, the machine's CPUs.

Read before and after, never during the run. A counter that the kernel does not offer is absent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute

from pytest_nfvperf.adapters.host.cpu_account import CPU_KINDS
from pytest_nfvperf.adapters.net.threads import PROC_NET, inside_netns
from pytest_nfvperf.model.measure.ledger import CounterSnapshot

_PROC = Path("/proc")
_PROTOCOLS = ("Ip", "Icmp", "Tcp", "Udp", "TcpExt")
_PROTOCOLS_6 = ("Ip6", "Icmp6", "Udp6")
_SOFTNET_FIELDS = {1: "dropped", 2: "time_squeeze"}


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface now. A changed ``index`` means that it was replaced; ``changes`` counts those of its carrier."""

    index: int
    up: bool
    changes: int | None
    counters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EndState:
    """The interfaces of one end's namespace by name, and its protocols' counters."""

    interfaces: Mapping[str, Interface]
    protocols: Mapping[str, int]

    def snapshot(self, source: str, interface: str) -> CounterSnapshot:
        """The protocols' counters, and the interface's if it exists."""
        found = self.interfaces.get(interface)
        counters = {**self.protocols, **({f"{interface}.{k}": v for k, v in found.counters.items()} if found else {})}
        return snapshot(source, counters)


def read_end(namespace: str) -> EndState:
    """TestbedError if the namespace does not exist."""

    def read() -> EndState:
        with IPRoute() as links:
            interfaces = {link.get_attr("IFLA_IFNAME"): _interface(link) for link in links.get_links()}
        return EndState(interfaces, _protocols())

    return inside_netns(namespace, read)


def snapshot(source: str, counters: Mapping[str, int]) -> CounterSnapshot:
    return CounterSnapshot(source, time.monotonic_ns(), tuple(sorted(counters.items())))


def _interface(link: Mapping[str, object]) -> Interface:
    attributes = dict(link["attrs"])  # type: ignore[call-overload]
    return Interface(
        index=int(str(link["index"])),
        # not its operational state, which the kernel writes up to a second later (linkwatch)
        up=link["state"] == "up" and attributes.get("IFLA_CARRIER", 1) == 1,
        changes=attributes.get("IFLA_CARRIER_CHANGES"),
        counters=dict(attributes.get("IFLA_STATS64", {})),
    )


def _protocols() -> dict[str, int]:
    counters: dict[str, int] = {}
    # IPv6, where the kernel has it: a name and a value a line. TCP counts both versions together.
    path = PROC_NET / "snmp6"
    for name, value in map(str.split, path.read_text(encoding="ascii").splitlines() if path.exists() else ()):
        protocol = next((one for one in _PROTOCOLS_6 if name.startswith(one)), None)
        if protocol is not None:
            counters[f"{protocol}.{name.removeprefix(protocol)}"] = int(value)
    for name in ("snmp", "netstat"):  # a line of names, then a line of values
        lines = (PROC_NET / name).read_text(encoding="ascii").splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            protocol, _, fields = names.partition(":")
            if protocol in _PROTOCOLS:
                numbers = map(int, values.partition(":")[2].split())
                counters |= {f"{protocol}.{k}": v for k, v in zip(fields.split(), numbers, strict=True)}
    return counters


def read_softirq() -> CounterSnapshot:
    """NET_RX and NET_TX by CPU, and the kernel's backlog: frames dropped, and budgets used up (softnet_stat)."""
    lines = (_PROC / "softirqs").read_text(encoding="ascii").splitlines()
    cpus = [name.lower() for name in lines[0].split()]
    counters: dict[str, int] = {}
    for line in lines[1:]:
        name, _, values = line.partition(":")
        if name.strip() in {"NET_RX", "NET_TX"}:
            rows = zip(cpus, map(int, values.split()), strict=False)
            counters |= {f"{name.strip()}.{cpu}": value for cpu, value in rows}
    # The n-th line is the n-th online CPU; numbers are hexadecimal.
    for number, line in enumerate((_PROC / "net" / "softnet_stat").read_text(encoding="ascii").splitlines()):
        fields = line.split()
        counters |= {f"softnet_{name}.{number}": int(fields[index], 16) for index, name in _SOFTNET_FIELDS.items()}
    return snapshot("softirq", counters)


def read_cpu() -> CounterSnapshot:
    """Clock ticks of all CPUs together, by kind. They include softirqs and stolen time, which no process has."""
    first = (_PROC / "stat").read_text(encoding="ascii").splitlines()[0].split()
    return snapshot("cpu", dict(zip(CPU_KINDS, map(int, first[1:]), strict=False)))


def listening_ports(proc_net: Path = PROC_NET) -> frozenset[int]:
    """TCP ports on which a process listens, and UDP ports that are bound, in the caller's namespace."""
    return frozenset(port for port, _ in _bound(proc_net))


def free_port(namespace: str, ports: Iterable[int]) -> int | None:
    """The first of these ports that nobody listens on in a namespace."""
    in_use = inside_netns(namespace, listening_ports)
    return next((port for port in ports if port not in in_use), None)


def listens(pid: int, port: int) -> bool:
    """True once the process has a listening TCP socket on this port, in its own namespace."""
    proc = _PROC / str(pid)
    try:
        sockets = {inode for bound, inode in _bound(proc / "net", ("tcp", "tcp6")) if bound == port}
        return bool(sockets) and any(str(fd.readlink()) in sockets for fd in (proc / "fd").iterdir())
    except OSError:  # it ended, or closed a file meanwhile
        return False


def _bound(proc_net: Path, tables: tuple[str, ...] = ("tcp", "tcp6", "udp", "udp6")) -> Iterator[tuple[int, str]]:
    """Ports and socket names that are bound: state 0A listens, 07 is a datagram socket (tcp_states.h)."""
    for table in tables:
        path = proc_net / table
        lines = path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else []
        for fields in map(str.split, lines):
            if fields[3] in {"0A", "07"}:
                yield int(fields[1].rpartition(":")[2], 16), f"socket:[{fields[9]}]"
