"""How long topologies of many parts take to build and to remove."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.net.cabling import Cabling
from pytest_nfvperf.adapters.net.ends import End, VethPair
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace, NamespacePlan
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run, wait_until
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology import ports as ends
from pytest_nfvperf.model.topology import topology as model
from pytest_nfvperf.model.topology.compose import CHAIN_NETWORK, bridge_chain

_REPEATS = 5
_PORT = 5201
_READY_DEADLINE_S = 30.0
_NETNS = Path("/run/netns")


def chain_against_vsctl(made: Bench) -> list[Figure]:
    """A 9-bridge patch chain with namespaces at its ends, to its first packet, beside S2's script on the same OVS."""
    ovs = _ovs(made)
    ours, script = [], []
    for _ in range(_REPEATS):
        ours.append(_build(ovs, bridge_chain(9, ends="namespace"), _first_packet)[0])
        script.append(_seconds(partial(_vsctl_chain, ovs, 9)))
        _remove_vsctl_chain(ovs, 9)
    mine, theirs = median(ours), median(script)
    detail = f"25 ovs-vsctl calls, without namespaces and packet: {format_seconds(theirs)}; medians of {_REPEATS}"
    share = f"{format_seconds(mine)}, {mine / theirs:.0%} of the script's time"
    return [Figure("9-bridge patch chain to its first packet", share, "<= 50 %", mine <= theirs / 2, detail)]


def _vsctl_chain(ovs: OvsDatapath, bridges: int) -> None:
    """As the script does it: a call for each bridge, and one for each of the 16 patch ports."""
    for number in range(1, bridges + 1):
        _vsctl(ovs, "add-br", f"s2-{number}", "--", "set", "Bridge", f"s2-{number}", "datapath_type=netdev")
    for left in range(1, bridges):
        for here, there in ((left, left + 1), (left + 1, left)):
            name, peer = f"s2-patch-{here}{there}", f"s2-patch-{there}{here}"
            patch = ("set", "Interface", name, "type=patch", f"options:peer={peer}")
            _vsctl(ovs, "add-port", f"s2-{here}", name, "--", *patch)


def _remove_vsctl_chain(ovs: OvsDatapath, bridges: int) -> None:
    for number in range(1, bridges + 1):
        _vsctl(ovs, "del-br", f"s2-{number}")


def _vsctl(ovs: OvsDatapath, *words: str) -> None:
    run(["ovs-vsctl", f"--db=unix:{ovs.instance.directory / 'db.sock'}", "--timeout=10", *words])


def long_chains(made: Bench) -> list[Figure]:
    """64 bridges, by patch ports and by veth pairs."""
    ovs = _ovs(made)
    return [
        figure
        for link in ("patch", "veth")
        for figure in _figures(
            f"64-bridge {link} chain to its first packet",
            3.0,
            [_build(ovs, bridge_chain(64, link=link, ends="namespace"), _first_packet) for _ in range(3)],
        )
    ]


def many_namespaces(made: Bench) -> list[Figure]:
    """200 namespaces with a veth pair each: alone, and with the other ends on one bridge of OVS."""
    journal = made.backend.journal
    home = LiveNamespace(journal, "bench")
    try:
        alone = [_two_hundred(journal, home) for _ in range(3)]
    finally:
        home.close()
    star = _build(_ovs(made), _star(200, 1))
    figures = _figures("200 namespaces with veth pairs", 5.0, alone)
    return figures + _figures("200 namespaces on one OVS bridge", 5.0, [star])


def many_ports(made: Bench) -> list[Figure]:
    """A thousand ports on one bridge, a hundred from each of ten namespaces."""
    return _figures("1000 veth ports on one OVS bridge", None, [_build(_ovs(made), _star(10, 100))])


def _two_hundred(journal: Journal, home: LiveNamespace) -> tuple[float, float]:
    cabling = Cabling(journal, home)
    started = time.monotonic()
    cabling.make_namespaces({f"n{i}": NamespacePlan(f"n{i}") for i in range(200)})
    names = [(f"n{i}", cabling.namespace(f"n{i}").path) for i in range(200)]
    cabling.join(
        [VethPair(End(f"p{name}", home.path), End("eth0", path, addresses=("10.0.0.1/24",))) for name, path in names]
    )
    wait_until(lambda: not cabling.not_running(), "link on 200 veth pairs", _READY_DEADLINE_S)
    return time.monotonic() - started, _seconds(cabling.close)


def _star(namespaces: int, each: int) -> model.Topology:
    """Namespaces around one bridge, each with so many interfaces."""
    return model.Topology(
        name=f"star-{namespaces}x{each}",
        bridges=("hub",),
        ports=(),
        crossings=(),
        directions=(),
        namespaces=tuple(ends.Namespace(f"n{i}") for i in range(namespaces)),
        nics=tuple(ends.Nic(f"n{i}", f"e{k}", "hub", f"n{i}e{k}") for i in range(namespaces) for k in range(each)),
    )


def _build(
    ovs: OvsDatapath, topology: model.Topology, verify: Callable[[Path, Path], None] | None = None
) -> tuple[float, float]:
    """Seconds to build, wait for and verify a topology by its two ends, and to remove it."""
    started = time.monotonic()
    built = ovs.build(topology)
    built.wait_ready(_READY_DEADLINE_S)
    if verify is not None:
        ends = [_NETNS / built.netns(name) for name in ("end0", "end1")]
        verify(*ends)
    took = time.monotonic() - started
    return took, _seconds(built.close)


def _first_packet(source: Path, sink: Path) -> None:
    """One datagram from end to end, sent again until it comes: ARP may lose the first."""
    there = (f"{CHAIN_NETWORK}.2", _PORT)
    with (
        inside(sink, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as receiver,
        inside(source, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender,
    ):
        receiver.bind(there)
        receiver.settimeout(0.1)

        def arrived() -> bool:
            sender.sendto(b"first", there)
            try:
                return receiver.recv(64) == b"first"
            except TimeoutError:
                return False

        wait_until(arrived, "the first packet", _READY_DEADLINE_S)


def _figures(what: str, target_s: float | None, times: list[tuple[float, float]]) -> list[Figure]:
    up, down = (median(column) for column in zip(*times, strict=True))
    detail = f"median of {len(times)}" if len(times) > 1 else "one run"
    target = "" if target_s is None else f"< {target_s:g} s"
    reached = None if target_s is None else up < target_s
    return [
        Figure(what, format_seconds(up), target, reached, detail),
        Figure(f"{what}: removed", format_seconds(down), "<= set-up", down <= up, detail),
    ]


def _seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _ovs(made: Bench) -> OvsDatapath:
    made.rig.remove_topology()
    datapath = made.rig.datapath()
    if not isinstance(datapath, OvsDatapath):
        raise TestbedError(f"this benchmark needs Open vSwitch, and the testbed has {datapath.info().kind}")
    return datapath
