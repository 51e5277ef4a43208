"""The generator's side of a backend with TRex, against the recorded wire of a real server and a stand-in library."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.process.journal import Journal, Kind
from pytest_nfvperf.backends.generator_side import ReservedMachine
from pytest_nfvperf.features.trex.side import TrexSide
from pytest_nfvperf.measure.clocks import SystemClock
from pytest_nfvperf.measure.cpu_placement import read_round_trips
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec, Testbed
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.functional.ovs_support import clean_run, needs_root
from tests.functional.test_trex_wire import PORTS, STAND_IN, spec_of
from tests.trex_wire import SESSION, recorded_server

pytestmark = needs_root


@pytest.fixture
def journal() -> Iterator[Journal]:
    with clean_run() as made:
        yield made


def bed_with(generator: GeneratorSpec) -> Testbed:
    return dataclasses.replace(discover_testbed(), generator=generator)


def machine_of(journal: Journal) -> ReservedMachine:
    return ReservedMachine(journal, SystemClock(), {}, recording=None)


def test_it_connects_and_journals_its_client(journal: Journal) -> None:
    with recorded_server(SESSION) as server:
        side = TrexSide(bed_with(spec_of(server, STAND_IN)))
        side.check()
        assert side.describe() == "TRex at 127.0.0.1, ports 0, 1"
        generator = side.make(machine_of(journal))
        (client,) = (entry for entry in journal.entries if entry.kind is Kind.PROCESS)
        assert client.name == "TRex client"
        assert client.details["pid"] > 0
        generator.attach(PORTS)
        assert side.line_rate_bps() is None, "its ports are virtual"
        generator.close()
        side.close()
        side.close()


def test_no_ring_is_shared_with_the_dut(journal: Journal) -> None:
    side = TrexSide(bed_with(GeneratorSpec("trex", server="127.0.0.1", client=STAND_IN)))

    assert side.polling_cpus() == ()
    assert read_round_trips(side.round_trips(machine_of(journal))) == []


def test_a_ceiling_needs_a_generator_that_was_made(journal: Journal) -> None:
    side = TrexSide(bed_with(GeneratorSpec("trex", server="127.0.0.1", client=STAND_IN)))
    ceilings = side.ceilings(machine_of(journal))

    assert ceilings.cached(Traffic(frame_size=64), 2) is None
    with pytest.raises(TestbedError, match="before TRex was connected"):
        ceilings.measure(Traffic(frame_size=64), 2)


def test_a_missing_client_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_nfvperf.features.trex.side.client_directories", lambda _spec: [])

    with pytest.raises(ConfigError, match="no TRex client library was found: write 'client: DIRECTORY'"):
        TrexSide(bed_with(GeneratorSpec("trex", server="127.0.0.1"))).check()
