"""The engine against the recorded wire of a real TRex v3.08: handshake, versions, ownership, and a whole trial.

With the server's own client library where NFV_TREX_DIR names one, with PyPI's two (extra ``trex``), and with a stand-in
that speaks the same wire: what the child and the engine make of it is tested.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.engine import Engine
from pytest_nfvperf.features.trex.child import CLIENT_PACKAGE, PYPI, connect
from pytest_nfvperf.features.trex.generator import TrexGenerator
from pytest_nfvperf.model.errors import ConfigError, GeneratorError, NfvperfError
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec, TrexSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from tests.functional.generator_support import run_dir
from tests.functional.trex_support import VARIABLE, needs_trex
from tests.trex_wire import DATA, ERRORS, SESSION, RecordedServer, recorded_server, request_id

STAND_IN = str(Path(__file__).parents[1] / "stand_in_trex")
_CLIENT = importlib.util.find_spec(CLIENT_PACKAGE)
needs_client = pytest.mark.skipif(_CLIENT is None, reason="needs PyPI's lbr-trex-client: pip install '.[trex]'")
REAL = [
    pytest.param(os.environ.get(VARIABLE), id="real", marks=needs_trex),
    pytest.param(_CLIENT and str(Path(str(_CLIENT.origin)).parent), id="PyPI", marks=needs_client),
]
LIBRARIES = [pytest.param(STAND_IN, id="stand-in"), *REAL]
PORTS = (GeneratorPort("a", "0", "02:00:00:00:00:0a"), GeneratorPort("b", "1", "02:00:00:00:00:0b"))
needs_pypi = pytest.mark.skipif(
    importlib.util.find_spec("trex_stl_lib") is None, reason="needs PyPI's trex-stl-lib: pip install '.[trex]'"
)


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def spec_of(server: RecordedServer, library: str | None, **changes: Any) -> GeneratorSpec:
    ports = TrexSpec(rx_delay_s=0.1, rpc_port=server.rpc_port, event_port=server.event_port)
    return GeneratorSpec("trex", server="127.0.0.1", client=library, trex=ports, **changes)


@contextmanager
def engine_at(server: RecordedServer, library: str, **changes: Any) -> Iterator[TrexGenerator]:
    with (
        run_dir() as directory,
        closing(TrexGenerator(spec_of(server, library, **changes), directory)) as generator,
    ):
        yield generator


def refusal(server: RecordedServer, library: str | None) -> NfvperfError:
    """What the user is told when the engine cannot start."""
    with run_dir() as directory, pytest.raises(NfvperfError) as told:
        TrexGenerator(spec_of(server, library), directory)
    return told.value


def test_it_connects_and_holds_its_ports(library: str) -> None:
    with recorded_server(SESSION) as server:
        with engine_at(server, library) as generator:
            assert generator.info().version == "v3.08"
            assert "ports 0 net_af_packet, 1 net_af_packet" in generator.info().detail
            generator.attach(PORTS)
            assert [(held.number, held.speed_bps, held.virtual) for held in generator.ports.values()] == [
                (0, 10e9, True),
                (1, 10e9, True),
            ]
            generator.wait_links_up(1.0)
            assert not any(one["params"]["force"] for one in server.asked if one["method"] == "acquire")
        assert [one["params"]["port_id"] for one in server.asked if one["method"] == "release"] == [0, 1]
    quiet = [one["params"]["attr"] for one in server.asked if one["method"] == "set_port_attr"]
    assert {"promiscuous": {"enabled": True}} in quiet
    # One that was not before us is not after us.
    assert quiet[-1] == {"promiscuous": {"enabled": False}}


NEWER = (
    "raw api_sync_v2 client too new 5.2",
    "Version mismatch: your client version is too new to be supported by the",
)
OLDER = ("raw api_sync_v2 client older 4.6", "RPC version mismatch: a newer client version is required")
OTHER = ("raw api_sync_v2 ASTF client", "RPC configuration mismatch - server RPC configuration: 'STL', client RPC")


@pytest.mark.parametrize(("case", "said"), [NEWER, OLDER, OTHER], ids=["newer", "older", "astf"])
def test_a_server_of_another_version_is_told_with_what_to_do(library: str, case: str, said: str) -> None:
    with recorded_server(ERRORS, instead={"api_sync_v2": request_id(ERRORS, "api_sync_v2", case)}) as server:
        error = refusal(server, library)
    assert isinstance(error, ConfigError)
    assert error.key == "generator.client"
    assert f"TRex server 127.0.0.1 and the client library do not fit: {said}" in error.message
    assert error.message.endswith("write 'client: DIRECTORY' of the server's own TRex distribution")


def _engine_with(variables: Mapping[str, str], argv: Sequence[str], log: Path, env: Mapping[str, str]) -> Engine:
    return Engine(argv, log, {**env, **variables})


def test_versions_are_in_the_message() -> None:
    with recorded_server(ERRORS) as server, run_dir() as directory:
        newer, fitting = (partial(_engine_with, {"STAND_IN_STL": version}) for version in ("5.2", "5.0"))
        with pytest.raises(ConfigError, match=r"\(API type 'STL':  - server: '5\.1', client: '5\.2'\)"):
            connect(spec_of(server, STAND_IN), directory / "log", newer)
        link, hello = connect(spec_of(server, STAND_IN), directory / "log", fitting)
        link.close()
    assert hello["server"]["version"] == "v3.08"


def test_all_libraries_that_were_tried_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is written in the testbed file, and none that was found fits."""
    monkeypatch.setattr("pytest_nfvperf.features.trex.child.client_directories", lambda _spec: [STAND_IN])
    with recorded_server(ERRORS, instead={"api_sync_v2": request_id(ERRORS, "api_sync_v2", OLDER[0])}) as server:
        message = str(refusal(server, None))
    assert (
        "generator.client: TRex server 127.0.0.1 understands none of the client libraries that were found: " in message
    )
    assert f"{STAND_IN}: {OLDER[1]}" in message
    assert "write 'client: DIRECTORY' of the server's own TRex distribution" in message


@needs_pypi
def test_the_library_of_2019_and_a_server_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyPI's 0.3 asks by a method of its own, and str() of the error that it raises fails itself."""
    monkeypatch.setattr("pytest_nfvperf.features.trex.child.client_directories", lambda _spec: [PYPI])
    with recorded_server(ERRORS) as server, run_dir() as directory:
        with pytest.raises(ConfigError) as told:
            connect(spec_of(server, PYPI), directory / "log")
        assert server.methods() == ["api_sync"]
    assert "(API type 'STL':  - server: '5.1', client: '4.1')" in str(told.value)


@pytest.mark.parametrize("newer", REAL)
def test_the_library_of_today_and_a_server_of_2019(newer: str) -> None:
    """Servers before v2.31 do not know the method of the handshake, and say so."""
    unknown = request_id(ERRORS, "no_such_method", "raw unknown method")
    with recorded_server(ERRORS, instead={"api_sync_v2": unknown}) as server:
        error = refusal(server, newer)
    assert "the client library do not fit: Mismatch between client and server versions" in str(error)


TAKEN = "bob.acquire(ports=[0]) while owned by alice, no force"


def test_a_port_of_somebody_else(library: str) -> None:
    instead = {"acquire": request_id(ERRORS, "acquire", TAKEN)}
    with recorded_server(ERRORS, instead=instead) as server, engine_at(server, library) as generator:
        with pytest.raises(GeneratorError) as told:
            generator.attach(PORTS)
        assert "port is already taken by 'alice'" in str(told.value)
        assert "release it there (trex-console, 'release'), wait for its owner, or write 'force: true'" in str(
            told.value
        )
        assert server.methods().count("acquire") == 1


def test_a_port_that_the_server_does_not_have(library: str) -> None:
    with recorded_server(SESSION) as server, engine_at(server, library) as generator:
        with pytest.raises(ConfigError, match=r"generator\.ports: .*the server has ports 0, 1, but no 7"):
            generator.attach([GeneratorPort("a", "7", "02:00:00:00:00:0a")])
        assert "acquire" not in server.methods()


def test_a_server_that_falls_silent(library: str) -> None:
    with recorded_server(SESSION) as server, engine_at(server, library) as generator:
        server.close()
        with pytest.raises(GeneratorError, match=r"TRex server 127\.0\.0\.1 stopped answering"):
            generator.attach(PORTS[:1])


@pytest.mark.parametrize("newer", REAL)
def test_the_recorded_trial_is_counted_by_the_real_library(newer: str) -> None:
    """Its streams, and the statistics that the server gave, through the library and the child to plain counts."""
    sample = json.loads((DATA / "stats-sample.json").read_text())["final"]
    frame = "02000000000b02000000000a" + "0800" + "00" * 46
    streams = [
        {"port": port, "rx_port": 1 - port, "id": number, "latency": latency, "frames": 4000, "fps": 1000.0,
         "start_after_us": 0, "frame": frame, "fields": {}}
        for port, number, latency in ((0, 10, False), (0, 20, True), (1, 11, False), (1, 21, True))
    ]  # fmt: skip
    with recorded_server(SESSION) as server, run_dir() as directory:
        link, _ = connect(spec_of(server, newer), directory / "log")
        with closing(link):
            for name, port in (("a", 0), ("b", 1)):
                link.command("attach", 10.0, name=name, port=port, force=False, route=None)
            answer = link.command("trial", 20.0, streams=streams, duration_s=4.0, longest_s=6.0, rx_delay_s=0.5)
    counted = {stream["id"]: stream for stream in answer["streams"]}
    for number in (10, 11, 20, 21):
        flow = sample["flow_stats"][str(number)]
        port = str(number % 10)
        assert counted[number]["sent"] == flow["tx_pkts"][port]
        assert counted[number]["received"] == flow["rx_pkts"][str(1 - int(port))]
    assert counted[20]["latency"]["histogram"] == sample["latency"]["20"]["latency"]["histogram"]
