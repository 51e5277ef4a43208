"""TRex in tests: a server of our own on a veth pair where NFV_TREX_DIR names one, recordings of it elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyroute2 import IPRoute, netns

from pytest_nfvperf.adapters.generators.engine import Engine, StartEngine, recording, replaying
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.process.journal import Journal, new_tag
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.features.trex.child import VARIABLE, ChildOptions
from pytest_nfvperf.features.trex.generator import TrexGenerator
from pytest_nfvperf.features.trex.server import TrexServer, start_server
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec, TrexSpec, TrexStart
from tests.functional.ovs_support import clean_run

DATA = Path(__file__).parents[1] / "data" / "trex"
RECORD_VARIABLE = "NFV_TREX_RECORD"
"""Set to 1 it makes the recordings anew, from a real server."""

needs_trex = pytest.mark.skipif(
    VARIABLE not in os.environ, reason=f"needs an installed TRex: {VARIABLE} names its directory"
)


@dataclass
class TrexLab:
    """A server on both ends of a veth pair, in a namespace of the run."""

    journal: Journal
    namespace: LiveNamespace
    spec: GeneratorSpec
    server: TrexServer

    def generator(self, start: StartEngine = Engine, **spec: object) -> TrexGenerator:
        """A client of it."""
        changed = GeneratorSpec(**{**_fields(self.spec), **spec})  # type: ignore[arg-type]
        options = ChildOptions(netns=self.namespace.name, start=start, server=self.server)
        return TrexGenerator(changed, self.journal.directory, options=options)


@contextmanager
def trex_lab(mtu: int = 9000, rx_delay_s: float = 0.5) -> Iterator[TrexLab]:
    """Start a server on a cable to itself; afterwards nothing of it may be left on the machine."""
    with clean_run() as journal:
        space = LiveNamespace(journal, "trex")
        veth(space, mtu, "trex0", "trex1")
        with trex_in(journal, space, ("trex0", "trex1"), rx_delay_s) as lab:
            yield lab


@contextmanager
def trex_in(
    journal: Journal, space: LiveNamespace, interfaces: tuple[str, str], rx_delay_s: float = 0.5
) -> Iterator[TrexLab]:
    """Start a server on interfaces of a namespace."""
    start = TrexStart(os.environ[VARIABLE], interfaces, low_end=True, netns=space.name)
    trex = TrexSpec(rx_delay_s=rx_delay_s, start=start)
    spec = GeneratorSpec("trex", server="127.0.0.1", client=os.environ[VARIABLE], ports=(0, 1), trex=trex)
    server = start_server(trex, start, journal)
    try:
        yield TrexLab(journal, space, spec, server)
    finally:
        server.stop()


def veth(space: LiveNamespace, mtu: int, near: str, far: str) -> None:
    """A cable in a namespace, up at both ends."""
    with IPRoute(netns=space.name) as links:
        links.link("add", ifname=near, kind="veth", peer=far)
        for name in (near, far):
            links.link("set", index=links.link_lookup(ifname=name)[0], mtu=mtu, state="up")


def flags_of(namespace: Path, interface: str) -> tuple[int, int]:
    """Whether an interface is promiscuous or takes all multicast (IFF_PROMISC, IFF_ALLMULTI), and its MTU."""

    def read() -> tuple[int, int]:
        with IPRoute() as links:
            (link,) = links.get_links(links.link_lookup(ifname=interface)[0])
            return int(link["flags"]) & 0x300, int(link.get_attr("IFLA_MTU"))

    return inside(namespace, read)


@contextmanager
def far_end_in(interface: str) -> Iterator[str]:
    """A named namespace, somebody else's, with an interface in it."""
    name = f"nfvtest-{new_tag()}"
    netns.create(name)
    try:
        with IPRoute() as host, (NETNS_DIRECTORY / name).open("rb") as target:
            host.link("set", index=host.link_lookup(ifname=interface)[0], net_ns_fd=target.fileno())
        yield name
    finally:
        netns.remove(name)


def _fields(spec: GeneratorSpec) -> dict[str, object]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__}


@contextmanager
def recorded_generator(directory: Path, name: str) -> Iterator[TrexGenerator]:
    """A generator that answers with the recording of a test."""
    spec = GeneratorSpec("trex", server="recorded", client="recorded")
    path = DATA / "contract" / f"{name}.jsonl"
    generator = TrexGenerator(spec, directory, options=ChildOptions(start=replaying(path, "trex")))
    try:
        yield generator
    finally:
        generator.close()


def recorder(name: str) -> StartEngine:
    """Starts engines, and records what is said where that is wanted."""
    if not os.environ.get(RECORD_VARIABLE):
        return Engine
    path = DATA / "contract" / f"{name}.jsonl"
    path.unlink(missing_ok=True)
    return recording(Engine, "trex", path)
