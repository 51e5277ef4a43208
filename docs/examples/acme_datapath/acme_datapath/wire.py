"""The wire as pytest_nfvperf sees it: its ports are veth pairs, and a program passes frames from one to the others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest_nfvperf as nfv
from pytest_nfvperf import extend
from pytest_nfvperf.extend import Workshop
from pytest_nfvperf.parts import Port

KIND = "acme:wire"
READY_POLL_S = 0.01
PROGRAM = "forward.py"


def ip(*words: str) -> str:
    """What ``ip`` of iproute2 prints, or an error with its words."""
    program = shutil.which("ip") or "/usr/sbin/ip"
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise nfv.TestbedError(f"ip {' '.join(words)} exited with {done.returncode}", evidence={"stderr": done.stderr})
    return done.stdout


class WireMaker(extend.DatapathMaker):
    """Makes wires on this machine."""

    def lacks(self) -> str | None:
        """Root, and ip(8)."""
        if os.geteuid() != 0:
            return f"{KIND} makes namespaces and veth pairs: run as root"
        return None if shutil.which("ip") else f"{KIND} needs ip(8): install iproute2"

    def start(self, workshop: Workshop) -> Wire:
        """Nothing runs before there is a topology."""
        return Wire(workshop)

    def versions(self) -> WireVersions:
        """For ``nfvperf ovs add DIRECTORY --datapath acme:wire``, and ``Dut("acme:wire", version=...)``."""
        return WireVersions()


class WireVersions(extend.DatapathVersions):
    """A version is a directory with a program."""

    kind = KIND

    def look_at(self, prefix: str | None) -> extend.DatapathInfo:
        """Its version and its program."""
        program = program_of(prefix)
        if not program.is_file():
            raise nfv.ConfigError(f"{prefix!r} holds no {KIND}: it has no {PROGRAM}")
        version = re.search(r'VERSION = "(.+)"', program.read_text(encoding="utf-8"))
        return extend.DatapathInfo(KIND, version[1] if version else "unknown", None, "", str(program))


def program_of(prefix: str | None) -> Path:
    """The program of a version, or of this package."""
    return Path(__file__).with_name(PROGRAM) if prefix is None else Path(prefix, PROGRAM)


class Wire(extend.Datapath):
    """The wires of all topologies."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._built: list[BuiltWire] = []
        self._numbers = iter(range(1, 1 << 30))

    def info(self) -> extend.DatapathInfo:
        """Kind, version, how it runs, and on how many CPUs."""
        version = WireVersions().look_at(self._workshop.prefix).version
        return extend.DatapathInfo(KIND, version, None, "packet sockets on veth pairs", cores=len(self._workshop.cpus))

    def build(self, topology: nfv.Topology) -> BuiltWire:
        """All bridges of it, each a wire of its own."""
        built = BuiltWire(self._workshop, topology, f"wire{next(self._numbers)}")
        self._built.append(built)
        return built

    def running(self) -> list[BuiltWire]:
        """What is built and not closed."""
        return [built for built in self._built if not built.closed]

    def collectors(self) -> tuple[PortCounters, ...]:
        """What the kernel counts at the ports."""
        return (PortCounters(self),)

    def check_alive(self) -> None:
        """TestbedError when a program ended."""
        for built in self.running():
            built.program.check()

    def logs(self) -> Mapping[str, str]:
        """The ends of the programs' logs."""
        return {built.name: built.program.log_tail() for built in self.running()}

    def close(self) -> None:
        """Close what still stands. Can be called twice."""
        for built in self.running():
            built.close()


class BuiltWire(extend.BuiltTopology):
    """One topology. Whatever fails while it is built, nothing of it stays."""

    def __init__(self, workshop: Workshop, topology: nfv.Topology, name: str) -> None:
        refuse_impossible(topology)
        self.topology = topology
        self.name = name
        self.closed = False
        self._workshop = workshop
        self._ready = workshop.directory / f"{name}.ready"
        self._namespace = workshop.make_namespace(name)
        try:
            self._peers = {port.name: self._join(port) for port in topology.ports}
            self.program = workshop.spawn(name, self._command(), netns=self._namespace.name, cpus=workshop.cpus)
        except BaseException:
            self._namespace.close()
            raise

    def _join(self, port: Port) -> str:
        """A veth pair: one end in our namespace, where it goes with that; the other for the generator."""
        peer, local, home = self._workshop.link_name(), port.name, self._namespace.name
        ip("link", "add", peer, "mtu", str(port.mtu), "type", "veth", "peer", "name", local, "netns", home)
        ip("-n", home, "link", "set", local, "mtu", str(port.mtu), "addrgenmode", "none", "up")
        ip("link", "set", peer, "addrgenmode", "none", "up")
        return peer

    def _command(self) -> list[str]:
        bridges = [",".join(self.topology.bridge_ports(bridge)) for bridge in self.topology.bridges]
        return [sys.executable, str(program_of(self._workshop.prefix)), str(self._ready), *bridges]

    def attachments(self) -> Mapping[str, str | None]:
        """DPDK's words for the far ends; the embedded generator takes them."""
        return {port: f"net_af_packet,iface={peer}" for port, peer in self._peers.items()}

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until the program listens on all ports."""
        end = time.monotonic() + deadline_s
        while not self._ready.exists():
            self.program.check()
            if time.monotonic() > end:
                raise nfv.TestbedError(f"waited {deadline_s:g} s for {self.name} to listen on its ports")
            time.sleep(READY_POLL_S)

    def configuration(self) -> str:
        """For the evidence."""
        peers = ", ".join(f"{port}={peer}" for port, peer in self._peers.items())
        return f"{self.name} in {self._namespace.name}: {peers}"

    def counters(self) -> dict[str, int]:
        """Frames at each port, named as the drop ledger knows them; as the datapath sees in and out."""
        found = {}
        for link in json.loads(ip("-n", self._namespace.name, "-j", "-s", "link", "show")):
            if link["ifname"] in self._peers:
                for direction in ("rx", "tx"):
                    for what in ("packets", "dropped"):
                        found[f"{link['ifname']}.{direction}_{what}"] = link["stats64"][direction][what]
        return found

    def close(self) -> None:
        """The program first; then the namespace, and with it all veth pairs. Can be called twice."""
        if not self.closed:
            self.closed = True
            self.program.stop()
            self._namespace.close()
            self._ready.unlink(missing_ok=True)


class PortCounters(extend.Collector):
    """Counters for the drop ledger, which explains losses by them; a datapath with more reasons names them here."""

    source = KIND
    drop_reasons: Mapping[str, str] = MappingProxyType({})

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def snapshot(self) -> extend.CounterSnapshot:
        """Of all ports, now."""
        found = {name: value for built in self._wire.running() for name, value in built.counters().items()}
        return extend.CounterSnapshot(KIND, time.monotonic_ns(), tuple(sorted(found.items())))


def refuse_impossible(topology: nfv.Topology) -> None:
    """ConfigError for what a wire does not have: generator ports on bridges is all."""
    others = [*topology.patches, *topology.veths, *topology.tunnels, *topology.nics, *topology.mirrors]
    others += [port for port in topology.ports if port.vlan is not None or port.peer is not None]
    if others or topology.rules:
        raise nfv.ConfigError(
            f"topology {topology.name!r}: {KIND} has bridges with generator ports, and nothing else; leave "
            f"{(others or topology.rules)[0]!r} out"
        )
