"""What the functional tests of OVS, journal and lock share: run directories, topologies, leftovers, frames."""

from __future__ import annotations

import dataclasses
import errno
import os
import select
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.host.hugepages import read_hugepages
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal, ProcessId, processes_of_run
from pytest_nfvperf.adapters.process.process import ManagedProcess, spawn
from pytest_nfvperf.measure.rig import Deployment, LiveTopology
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.model.topology.links import Crossing, Patch, TunnelKind
from pytest_nfvperf.model.topology.ports import NicKind, Port, PortRole, Vlan
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.datapath import BuiltTopology

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces")
needs_hugepages = pytest.mark.skipif(read_hugepages().free_mib < 512, reason="needs 512 MiB of free hugepages")
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")


@contextmanager
def run_base() -> Iterator[Path]:
    """A base directory of the test's own, with a path short enough for sockets."""
    base = Path(tempfile.mkdtemp(prefix="nfvt-", dir="/run"))
    try:
        yield base
    finally:
        shutil.rmtree(base)


@contextmanager
def clean_run() -> Iterator[Journal]:
    """The journal of a run of the test's own, which must leave nothing on the machine."""
    with run_base() as base:
        made = open_journal(base)
        try:
            yield made
        finally:
            made.close()
        assert leftovers(made.tag) == []
        assert list(base.iterdir()) == []


def phy2phy(*, crossed: bool = True, name: str = "br0") -> Topology:
    """Port - bridge - port."""
    ports = tuple(Port(f"p{i}", name, PortRole.ENDPOINT, mac) for i, mac in enumerate(MACS))
    crossings = (Crossing(name, "p0", "p1"), Crossing(name, "p1", "p0")) if crossed else ()
    return Topology("phy2phy", (name,), ports, crossings, (Direction("p0", "p1"), Direction("p1", "p0")))


def patched() -> Topology:
    """Port - bridge - patch - bridge - port."""
    ports = (Port("p0", "bra", PortRole.ENDPOINT, MACS[0]), Port("p1", "brb", PortRole.ENDPOINT, MACS[1]))
    crossings = (
        Crossing("bra", "p0", "patcha"),
        Crossing("bra", "patcha", "p0"),
        Crossing("brb", "patchb", "p1"),
        Crossing("brb", "p1", "patchb"),
    )
    return Topology(
        "patched",
        ("bra", "brb"),
        ports,
        crossings,
        (Direction("p0", "p1"),),
        (Patch("bra", "patcha", "brb", "patchb"),),
    )


def testbed(datapath: str, **changes: object) -> Testbed:
    """The discovered testbed of this machine with this datapath."""
    found = discover_testbed()
    return dataclasses.replace(found, ovs=dataclasses.replace(found.ovs, datapath=datapath), **changes)


testbed.__test__ = False  # type: ignore[attr-defined]


@contextmanager
def started(journal: Journal, datapath: str, name: str = "ovs") -> Iterator[OvsDatapath]:
    """A private OVS, closed at the end."""
    with started_on(testbed(datapath), journal, name) as running:
        yield running


@contextmanager
def started_on(bed: Testbed, journal: Journal, name: str) -> Iterator[OvsDatapath]:
    """The private OVS of a testbed, closed at the end."""
    running = OvsDatapath.start(bed, journal, name=name)
    try:
        yield running
    finally:
        running.close()


def live_on(datapath: Any, built: Any) -> Any:
    """The live topology that an event gets, of one that was built by hand."""
    nothing: Any = None
    return LiveTopology(
        built.topology, 1, current=Deployment(built, datapath.info(), None, None, datapath.restart, nothing)
    )


def processes_tagged(tag: str) -> list[ProcessId]:
    """Every process whose environment at exec had our variable with this tag."""
    return list(processes_of_run(tag, Path("/no/journal")))


def leftovers(tag: str) -> list[str]:
    """Whatever of a run is still on the machine."""
    found = [f"process {identity.pid}" for identity in processes_tagged(tag)]
    netns = Path("/run/netns")
    found += [f"netns {path.name}" for path in netns.glob(f"*{tag}*")] if netns.is_dir() else []
    with IPRoute() as links:
        names = [str(link.get_attr("IFLA_IFNAME")) for link in links.get_links()]
    return found + [f"link {name}" for name in names if tag in name]


@contextmanager
def frames_on(interface: str) -> Iterator[socket.socket]:
    """A raw socket on an interface, for sending and receiving frames."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5)) as raw:
        raw.bind((interface, 0x88B5))
        raw.settimeout(3)
        yield raw


def frame(destination: str, source: str, payload: bytes = b"") -> bytes:
    """A 60-byte frame of the local experimental EtherType (IEEE 802, 0x88B5)."""
    macs = bytes.fromhex(destination.replace(":", "") + source.replace(":", ""))
    return (macs + b"\x88\xb5" + payload).ljust(60, b"\0")


def far_ends(built: BuiltTopology) -> list[str]:
    """The interfaces of the far ends of veth ports."""
    return [str(device).partition("iface=")[2] for device in built.attachments().values()]


@contextmanager
def testpmd(journal: Journal, built: BuiltTopology, mode: str) -> Iterator[ManagedProcess]:
    """dpdk-testpmd on the far ends, forwarding until the block ends."""
    devices = [str(device) for device in built.attachments().values()]
    vdevs = [part for i, device in enumerate(devices) for part in ("--vdev", device.replace("_user", f"_user{i}", 1))]
    argv = [
        "dpdk-testpmd", "--lcores", "0@0,1@0", f"--file-prefix=nfv-{journal.tag}-tp", "--in-memory", "--no-pci",
        "--single-file-segments", "--no-telemetry", "--socket-mem", "64", *vdevs, "--", "-i", "--auto-start",
        f"--forward-mode={mode}", "--txd=512", "--rxd=1024", "--total-num-mbufs=16384",
    ]  # fmt: skip
    process = spawn(journal, "dpdk-testpmd", argv, log=journal.directory / "testpmd.log", pipes=True)
    try:
        yield process
    finally:
        process.stop()


testpmd.__test__ = False  # type: ignore[attr-defined]


def until(done: object, deadline_s: float = 30.0) -> bool:
    """Poll a predicate; False when it did not come true."""
    end = time.monotonic() + deadline_s
    while not done():  # type: ignore[operator]
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def with_nics(topology: Topology, **changes: object) -> Topology:
    """The topology with every Nic changed so; an internal port has the same name inside."""
    nics = tuple(dataclasses.replace(nic, **changes) for nic in topology.nics)  # type: ignore[arg-type]
    if changes.get("kind") is NicKind.INTERNAL:
        nics = tuple(dataclasses.replace(nic, name=nic.port) for nic in nics)
    return dataclasses.replace(topology, nics=nics)


def with_vlans(topology: Topology, tags: tuple[int, ...]) -> Topology:
    """The topology with each Nic's port in a VLAN."""
    nics = tuple(dataclasses.replace(nic, vlan=Vlan(tag)) for nic, tag in zip(topology.nics, tags, strict=True))
    return dataclasses.replace(topology, nics=nics)


def send_tcp(source: str, sink: str, address: str, text: bytes, port: int = 5201, wait_s: float = 5) -> bytes:
    """Send a text from one namespace to another by TCP and return what arrived there; TimeoutError when it cannot."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside(netns_path(sink), lambda: socket.create_server((address, port), family=family)) as server:
        server.settimeout(wait_s + 5)
        with ThreadPoolExecutor(1) as sender:
            sent = sender.submit(inside, netns_path(source), lambda: _send(address, port, text, wait_s))
            until(lambda: sent.done() or select.select([server], [], [], 0.05)[0], wait_s + 5)
            if sent.done():
                sent.result()
            connection, _ = server.accept()
            with connection:
                connection.settimeout(10)
                received = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            sent.result()
    return received


def _send(address: str, port: int, text: bytes, wait_s: float) -> None:
    with _connected(address, port, wait_s) as connection:
        connection.sendall(text)


def _connected(address: str, port: int, wait_s: float) -> socket.socket:
    """A tunnel learns its neighbours by the first frames, which are lost: ARP may give up then, and is asked anew."""
    end = time.monotonic() + wait_s
    while True:
        try:
            return socket.create_connection((address, port), timeout=wait_s)
        except OSError as error:
            if error.errno != errno.EHOSTUNREACH or time.monotonic() > end:
                raise


def netns_path(name: str) -> Path:
    """The file of a named namespace."""
    return Path("/run/netns") / name


def some_tunnels() -> list[object]:
    """Kinds of tunnels and the IP version around them: two in ``make test``, the others where there is time."""
    every = [(kind, ip) for kind in TunnelKind for ip in (4, 6)]
    more = pytest.mark.thorough("another tunnel")
    chosen = ((TunnelKind.VXLAN, 4), (TunnelKind.GENEVE, 6))
    return [pytest.param(*each, marks=() if each in chosen else more) for each in every]
