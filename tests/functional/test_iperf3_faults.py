"""What can go wrong between two namespaces: each a clear error, or a result that says why it is invalid."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.end_counters import read_end
from pytest_nfvperf.adapters.generators.iperf3 import Iperf3Engine, find_iperf3
from pytest_nfvperf.adapters.net.threads import inside_netns
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.errors import GeneratorError, TestbedError
from pytest_nfvperf.model.measure.streams import StreamResult, StreamSpec
from pytest_nfvperf.model.testbed.testbed import StreamsSpec
from tests.functional.ovs_support import needs_root, until
from tests.functional.stream_support import Pair, change, pair

pytestmark = needs_root

SPEC = StreamSpec(duration_s=1.0)
FLOWING_BYTES = 1_000_000


@pytest.fixture
def ends() -> Iterator[Pair]:
    with pair() as made:
        yield made


@contextmanager
def meanwhile(ends: Pair, act: Callable[[], object]) -> Iterator[None]:
    """Do something once the streams flow."""

    def flowing() -> bool:
        return read_end(ends.client.namespace).interfaces[ends.client.interface].counters["tx_bytes"] > FLOWING_BYTES

    def wait_and_act() -> None:
        if until(flowing):
            act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def disturbed(
    ends: Pair, act: Callable[[Iperf3Engine], object], spec: StreamSpec = SPEC, margin_s: float = 8.0
) -> StreamResult:
    engine = ends.engine(margin_s=margin_s)
    try:
        with meanwhile(ends, lambda: act(engine)):
            return engine.run(spec, ends.client, ends.server)
    finally:
        engine.close()


def kill(role: str, number: int = signal.SIGKILL) -> Callable[[Iperf3Engine], None]:
    def act(engine: Iperf3Engine) -> None:
        assert engine.session is not None
        os.kill(engine.session.pid(role), number)

    return act


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_process_killed_makes_the_result_invalid(ends: Pair, role: str) -> None:
    result = disturbed(ends, kill(role))
    assert [(r.code, r.detail) for r in result.invalid][:1] == [
        (Reason.GENERATOR_DIED, f"the iperf3 {role} was killed by SIGKILL")
    ]
    assert result.directions == ()
    assert result.goodput_bps is None


def test_a_run_that_hangs_is_ended(ends: Pair) -> None:
    with pytest.raises(GeneratorError, match=r"did not end within 1.5 s, though it was to run for 1 s"):
        disturbed(ends, kill("server", signal.SIGSTOP), margin_s=0.5)


@pytest.mark.parametrize(("pull", "seen"), [("unplug", "went away"), ("set_down", "went down")])
def test_a_veth_pulled_makes_the_result_invalid(ends: Pair, pull: str, seen: str) -> None:
    result = disturbed(ends, lambda _: getattr(ends, pull)(), margin_s=0.5)
    assert result.invalid[0].code is Reason.LINK_DOWN
    assert result.invalid[0].detail == f"interface client0 in namespace {ends.client.namespace} {seen}"


def test_a_namespace_deleted_is_said(ends: Pair) -> None:
    with pytest.raises(
        TestbedError, match=f"the server's network namespace {ends.server.namespace} was deleted during"
    ):
        disturbed(ends, lambda _: ends.namespaces[1].close())


def test_an_end_that_is_down_is_said(ends: Pair) -> None:
    ends.set_down()
    with pytest.raises(GeneratorError, match=f"interface client0 in namespace {ends.client.namespace} is down"):
        ends.engine().run(SPEC, ends.client, ends.server)


def test_an_end_that_cannot_be_reached_is_said(ends: Pair) -> None:
    elsewhere = replace(ends.server, address="203.0.113.1")
    change(elsewhere, lambda links, index: links.addr("add", index=index, address=elsewhere.address, prefixlen=32))
    with pytest.raises(GeneratorError) as caught:
        ends.engine().run(SPEC, ends.client, elsewhere)
    # Newer iperf3s guess at a reason: "unable to connect to server - server may have stopped running or ...: Network".
    assert re.fullmatch(
        f"iperf3 from {ends.client.namespace} to 203.0.113.1 in {ends.server.namespace} failed: "
        "its client says: unable to connect to server( - server may have stopped [^:]*)?: Network is unreachable",
        caught.value.message,
    )


def test_an_address_that_is_not_there_is_said(ends: Pair) -> None:
    with pytest.raises(
        GeneratorError,
        match=r"server did not come to listen on 203\.0\.113\.1 .*: error - unable .* Cannot assign requested address",
    ):
        ends.engine().run(SPEC, ends.client, replace(ends.server, address="203.0.113.1"))


def test_a_namespace_or_an_interface_that_is_not_there_is_said(ends: Pair) -> None:
    engine = ends.engine()
    with pytest.raises(TestbedError, match=r"there is no network namespace 'gone' \(/run/netns/gone\)"):
        engine.run(SPEC, ends.client, replace(ends.server, namespace="gone"))
    with pytest.raises(GeneratorError, match=r"the client's interface 'eth7' is not in .* \(there: client0, lo\)"):
        engine.run(SPEC, replace(ends.client, interface="eth7"), ends.server)


def test_what_iperf3_cannot_do_is_said_in_its_own_words(ends: Pair) -> None:
    with pytest.raises(GeneratorError, match=r"its client says: unable to set TCP_CONGESTION"):
        ends.engine().run(replace(SPEC, congestion="nonesuch"), ends.client, ends.server)


def test_a_cpu_that_is_not_there_is_said(ends: Pair) -> None:
    with pytest.raises(
        GeneratorError, match=r"server did not come to listen on .* exited with status 1: taskset: fail"
    ):
        ends.engine().run(replace(SPEC, server_cpus=(1023,)), ends.client, ends.server)


def test_without_iperf3_the_package_is_named(ends: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GeneratorError) as caught:
        ends.engine()
    assert str(caught.value) == "iperf3 is not installed: apt-get install iperf3"


def test_another_program_of_that_name_is_refused() -> None:
    with pytest.raises(GeneratorError, match=r"echo is not iperf3: it says 'echo \(GNU coreutils\)'"):
        find_iperf3(StreamsSpec(path="/bin/echo"))


def test_a_closed_engine_runs_nothing(ends: Pair) -> None:
    engine = ends.engine()
    engine.close()
    engine.close()
    with pytest.raises(GeneratorError, match="the iperf3 engine is closed"):
        engine.run(SPEC, ends.client, ends.server)


@contextmanager
def listening(ends: Pair, port: int) -> Iterator[None]:
    with inside_netns(ends.server.namespace, socket.socket) as taken:
        taken.bind((ends.server.address, port))
        taken.listen()
        yield


def test_a_taken_port_is_passed_over(ends: Pair) -> None:
    with listening(ends, 5300):
        result = ends.engine(ports=(5300, 5301)).run(StreamSpec(duration_s=0.5), ends.client, ends.server)
    assert result.valid


def test_a_port_taken_at_the_last_moment_is_passed_over(ends: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_nfvperf.adapters.generators.end_counters.listening_ports", frozenset)
    with listening(ends, 5300):
        assert ends.engine(ports=(5300, 5301)).run(SPEC, ends.client, ends.server).valid
        with pytest.raises(GeneratorError, match=r"no port is free .*: 5300 taken"):
            ends.engine(ports=(5300,)).run(SPEC, ends.client, ends.server)


def test_no_free_port_is_said(ends: Pair) -> None:
    with listening(ends, 5300), pytest.raises(GeneratorError) as caught:
        ends.engine(ports=(5300,)).run(SPEC, ends.client, ends.server)
    assert caught.value.message == (
        f"no port is free for the iperf3 server in namespace {ends.server.namespace}: 5300 taken"
    )
