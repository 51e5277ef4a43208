"""TRex in tests: a server of our own on a veth pair where NFV_TREX_DIR names one, recordings of it elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.generators.end_counters import listening_ports
from pytest_nfvperf.adapters.generators.engine import Engine, EngineLink, StartEngine, recording, replaying
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, ManagedProcess, spawn, wait_until
from pytest_nfvperf.features.trex.generator import TrexGenerator
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec, TrexSpec
from tests.functional.ovs_support import clean_run
from tests.trex_server import RPC_PORT, START_DEADLINE_S, server_command

DATA = Path(__file__).parents[1] / "data" / "trex"
VARIABLE = "NFV_TREX_DIR"
"""Names the directory of an installed TRex."""

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
    server: ManagedProcess

    def generator(self, start: StartEngine = Engine, **spec: object) -> TrexGenerator:
        """A client of it."""
        changed = GeneratorSpec(**{**_fields(self.spec), **spec})  # type: ignore[arg-type]
        return TrexGenerator(changed, self.journal.directory, started_in(self.namespace.name, start))


def started_in(namespace: str, start: StartEngine = Engine) -> StartEngine:
    """Start engines in a network namespace."""

    def begin(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> EngineLink:
        return start(["nsenter", f"--net={NETNS_DIRECTORY / namespace}", *argv], log, env)

    return begin


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
    trex, path = TrexSpec(rx_delay_s=rx_delay_s), os.environ[VARIABLE]
    spec = GeneratorSpec("trex", server="127.0.0.1", client=path, ports=(0, 1), trex=trex)
    command = server_command(path, journal.directory / "trex_cfg.yaml", interfaces)
    server = spawn(journal, "TRex", command, log=journal.directory / "trex-server.log", netns=space.name)

    def listens() -> bool:
        server.check()
        return RPC_PORT in listening_ports(Path(f"/proc/{server.pid}/net"))

    try:
        wait_until(listens, "TRex to listen", START_DEADLINE_S)
        yield TrexLab(journal, space, spec, server)
    finally:
        server.stop()


def veth(space: LiveNamespace, mtu: int, local: str, peer: str) -> None:
    """A cable in a namespace, up at both ends."""
    with IPRoute(netns=space.name) as links:
        links.link("add", ifname=local, kind="veth", peer=peer)
        for name in (local, peer):
            links.link("set", index=links.link_lookup(ifname=name)[0], mtu=mtu, state="up")


def _fields(spec: GeneratorSpec) -> dict[str, object]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__}


@contextmanager
def recorded_generator(directory: Path, name: str) -> Iterator[TrexGenerator]:
    """A generator that answers with the recording of a test."""
    spec = GeneratorSpec("trex", server="recorded", client="recorded")
    path = DATA / "contract" / f"{name}.jsonl"
    generator = TrexGenerator(spec, directory, replaying(path, "trex"))
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
