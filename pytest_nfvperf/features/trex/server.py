"""A TRex server that we start on this machine, and what it needs there.

The journal has it like every process of ours, and also the state of its interfaces, which it leaves promiscuous.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute

from pytest_nfvperf.adapters.generators.end_counters import listening_ports
from pytest_nfvperf.adapters.host.nic import pci_address
from pytest_nfvperf.adapters.host.nic_binding import check_dpdk_device
from pytest_nfvperf.adapters.host.pci import read_device
from pytest_nfvperf.adapters.net.borrowed_interfaces import note_settings, restore_settings
from pytest_nfvperf.adapters.net.ends import OWN_NAMESPACE
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.process.journal import Entry, Journal
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, ManagedProcess, describe_exit, spawn, wait_until
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from pytest_nfvperf.model.testbed.testbed import NicSpec, TrexSpec, TrexStart

DUMMY = "dummy"
"""Takes the place of a missing port in the list of interfaces."""
MOUNTS = Path("/proc/self/mounts")
_NORMAL_CPUS = 3
_UP = 0x1  # IFF_UP, linux/if.h
_START_DEADLINE_S = 60.0
"""With hugepages to clear and NICs to reset it takes half a minute."""
_DEVARGS = {
    # Its rings hold frames of 2 KiB otherwise, and larger ones are dropped on transmit.
    "af_packet": "--vdev=net_af_packet{number},iface={name},framesz=9216,blocksz=36864,framecnt=1024",
    "memif": "--vdev=net_memif{number},{name}",
}


@dataclass(frozen=True, slots=True)
class MissingPart:
    """Something that the start needs. ``key``: where the testbed file names it."""

    key: str
    what: str
    advice: str


def binary_of(start: TrexStart) -> Path:
    """The program to start.

    TRex's script in front of it would bind NICs and reserve hugepages on its own, and give neither back. Only NICs that
    the kernel's driver keeps need it: it loads their library.
    """
    return Path(start.path) / ("t-rex-64" if _has_bifurcated(start) else "_t-rex-64")


def _has_bifurcated(start: TrexStart) -> bool:
    devices = (read_device(address) for address in pci_devices(start))
    return any(device is not None and device.bifurcated for device in devices)


def _namespace_of(start: TrexStart) -> Path:
    return OWN_NAMESPACE if start.netns is None else NETNS_DIRECTORY / start.netns


def kernel_interfaces(start: TrexStart) -> tuple[str, ...]:
    """Interfaces of TRex that the kernel has."""
    return tuple(name for name in start.interfaces if name != DUMMY) if start.driver == "af_packet" else ()


def pci_devices(start: TrexStart) -> tuple[str, ...]:
    """PCI addresses of TRex's NICs."""
    return tuple(name for name in start.interfaces if name != DUMMY) if start.driver == "pci" else ()


def missing_parts(start: TrexStart, nics: Sequence[NicSpec] = ()) -> Iterator[MissingPart]:
    """What is missing for a start; starts nothing. ``nics``: what the run binds before."""
    binary = binary_of(start)
    if not binary.is_file():
        yield MissingPart(
            "path", f"no TRex is installed there: {binary} is missing", f"name the directory of {binary.name}"
        )
    elif not os.access(binary, os.X_OK):
        yield MissingPart("path", f"{binary} cannot be executed", f"chmod +x {binary}")
    cpus = len(os.sched_getaffinity(0))
    if cpus < _NORMAL_CPUS and not start.low_end:
        yield MissingPart(
            "low_end",
            f"TRex needs {_NORMAL_CPUS} CPUs, and this machine has {cpus}",
            "write 'low_end: true', which shares them",
        )
    yield from _missing_nics(start, nics)
    namespace = _namespace_of(start)
    if not namespace.exists():
        yield MissingPart("netns", f"there is no network namespace {start.netns!r}", f"ip netns add {start.netns}")
        return
    there = inside(namespace, _interfaces)
    where = "this machine" if start.netns is None else f"namespace {start.netns!r}"
    for name in kernel_interfaces(start):
        if name not in there:
            listed = ", ".join(sorted(set(there) - {"lo"})) or "none"
            yield MissingPart(
                "interfaces",
                f"{where} has no interface {name!r} (there are: {listed})",
                "make it before the run, or correct the name",
            )
        elif not there[name]:
            inside_it = f"-n {start.netns} " if start.netns else ""
            yield MissingPart(
                "interfaces", f"interface {name!r} in {where} is down", f"ip {inside_it}link set {name} up"
            )


def _missing_nics(start: TrexStart, nics: Sequence[NicSpec]) -> Iterator[MissingPart]:
    for address in pci_devices(start):
        try:
            check_dpdk_device(address, "TRex", "", nics)
        except (ConfigError, TestbedError) as error:
            problem, _, advice = error.message.partition("; ")
            yield MissingPart("interfaces", problem, advice or "correct the address")
    if pci_devices(start) and " hugetlbfs " not in MOUNTS.read_text(encoding="utf-8"):
        problem = "TRex on PCI NICs needs hugepages by a mount, and none is there"
        yield MissingPart("driver", problem, "mount -t hugetlbfs nodev /mnt/huge")


def _interfaces() -> dict[str, bool]:
    """Interfaces of the calling thread's namespace, and whether they are up."""
    with IPRoute() as links:
        flags = {socket.if_indextoname(link["index"]): int(link["flags"]) for link in links.get_links()}
    return {name: bool(value & _UP) for name, value in flags.items()}


class TrexServer:
    """A server that we started; its interfaces are restored at its end."""

    def __init__(self, process: ManagedProcess, journal: Journal, saved_settings: Sequence[Entry]) -> None:
        self._process = process
        self._journal = journal
        self._saved_settings = list(saved_settings)

    @property
    def pid(self) -> int:
        return self._process.pid

    def running(self) -> bool:
        """Also true while a signal has stopped it."""
        return self._process.running()

    def describe_state(self) -> str:
        """The state of its process, for messages: "was killed by SIGKILL", "is in state T (stopped)"."""
        status = self._process.popen.poll()
        return f"is in state {self._process.state()}" if status is None else describe_exit(status)

    def evidence(self) -> dict[str, str]:
        return {self._process.log.name: self._process.log_tail()}

    def stop(self) -> None:
        """End it and restore its interfaces; TestbedError if one cannot be restored. Can be called twice."""
        self._process.stop()
        while self._saved_settings:
            entry = self._saved_settings[-1]
            try:
                restore_settings(entry)
            except OSError as error:
                raise TestbedError(f"interface {entry.name!r} could not be restored: {error}") from error
            self._journal.forget(self._saved_settings.pop())


def start_server(spec: TrexSpec, start: TrexStart, journal: Journal) -> TrexServer:
    """Start TRex and wait until it takes requests.

    Args:
        spec: its TCP ports.
        start: what to start, on which interfaces.
        journal: notes it before it starts.

    Raises:
        ConfigError: it is not installed, the machine has too few CPUs, the namespace or an interface does not exist,
            or an interface is down.
        TestbedError: it ended, or did not begin to listen; with the end of its log.
    """
    for one in missing_parts(start):
        raise ConfigError(f"{one.what}: {one.advice}", key=f"generator.trex.start.{one.key}")
    config = journal.directory / "trex_cfg.yaml"
    config.write_text(_configuration(spec, start, journal.tag), encoding="utf-8")
    saved_settings = note_settings(journal, kernel_interfaces(start), _namespace_of(start))
    options = ["-i", "--cfg", str(config), "--no-scapy-server", *([] if start.driver == "pci" else ["--software"])]
    # By itself the program finds its own libraries, by machine, from its own directory only.
    libraries = Path(start.path) / "so"
    search_path = os.pathsep.join([start.path, str(libraries / os.uname().machine), str(libraries)])
    program = ["env", f"--chdir={start.path}", f"LD_LIBRARY_PATH={search_path}", str(binary_of(start))]
    log = journal.directory / "trex-server.log"
    process = spawn(journal, "TRex", [*program, *options], log=log, netns=start.netns)
    server = TrexServer(process, journal, saved_settings)

    def listens() -> bool:
        process.check()
        with suppress(OSError):  # it ended meanwhile
            return spec.rpc_port in listening_ports(Path(f"/proc/{process.pid}/net"))
        return False

    awaited = f"TRex to listen on TCP port {spec.rpc_port}"
    try:
        wait_until(listens, awaited, _START_DEADLINE_S, last_seen=lambda: "it runs and does not")
    except BaseException as error:
        if isinstance(error, DeadlineError):
            error.evidence[process.log.name] = process.log_tail()
        server.stop()
        raise
    return server


def _configuration(spec: TrexSpec, start: TrexStart, prefix: str) -> str:
    """The text of ``trex_cfg.yaml`` (TRex manual, "Configuration YAML")."""
    platform: dict[str, Any] = {
        "version": 2,
        "prefix": f"nfv-{prefix}",
        "interfaces": [
            pci_address(name)
            if name == DUMMY or start.driver not in _DEVARGS
            else _DEVARGS[start.driver].format(number=at, name=name)
            for at, name in enumerate(start.interfaces)
        ],
        "zmq_rpc_port": spec.rpc_port,
        "zmq_pub_port": spec.event_port,
    }
    if start.driver != "pci":
        platform["port_info"] = [
            {"src_mac": port_mac(number), "dest_mac": port_mac(number ^ 1)} for number in range(len(start.interfaces))
        ]
    if start.low_end:
        platform |= {"low_end": True, "limit_memory": 512}
    return json.dumps([platform], indent=2) + "\n"  # which is YAML, too


def port_mac(number: int) -> str:
    """A MAC address for a TRex port, for frames whose addresses do not matter."""
    return f"02:00:00:00:7e:{number:02x}"
