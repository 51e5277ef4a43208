"""TCP connects by iperf 2 between pods of a real node."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators import program_pairs as engine
from pytest_nfvperf.adapters.generators.program_pairs import Iperf2Engine, await_end
from pytest_nfvperf.adapters.net.threads import inside_netns
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run, spawn
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.measure.streams import ConnectSpec
from pytest_nfvperf.model.topology.workloads import pod_node
from pytest_nfvperf.ports.generator import StreamEnd
from tests.functional.ovs_support import needs_root

pytestmark = needs_root

_TIME_WAIT = "06"


def test_connects_between_pods_are_counted_and_timed(ovs: OvsDatapath, journal: Journal) -> None:
    built = ovs.build(pod_node(2))
    try:
        built.wait_ready(10)
        pod1, pod2 = (StreamEnd(built.netns(f"pod{n}"), f"198.18.1.{n}", "eth0") for n in (1, 2))
        client = Iperf2Engine(journal)
        found = client.run(ConnectSpec(connects=500), pod1, pod2)
        assert found.accepted == found.times.total >= 500
        assert found.failed == 0
        assert 0 < found.times.min_ns <= found.mean_ns <= found.times.max_ns
        assert found.elapsed_ns > 0
        assert _waiting(pod1) == 0  # the next run has all ports again
        elsewhere = StreamEnd(pod2.namespace, "198.18.9.9", "eth0")
        with pytest.raises(GeneratorError, match=r"cannot listen at 198\.18\.9\.9: .+ seen from namespace nfv-"):
            client.run(ConnectSpec(), pod1, elsewhere)
        assert list(journal.directory.glob("iperf-*")) == []
    finally:
        built.close()


def test_a_client_that_reaches_nobody_is_ended(
    ovs: OvsDatapath, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verify: an iperf whose connects get no answer, which may not hear SIGTERM, is gone, and the error says so."""
    monkeypatch.setattr(engine, "_STALL_S", 0.5)
    built = ovs.build(pod_node(2))
    try:
        built.wait_ready(10)
        pod1, pod2 = (StreamEnd(built.netns(f"pod{n}"), f"198.18.1.{n}", "eth0") for n in (1, 2))
        run(["ip", "-n", pod2.namespace, "link", "set", "eth0", "down"])
        with pytest.raises(
            GeneratorError, match=r"iperf from nfv-.+ to 198\.18\.1\.2 in nfv-.+ made no connect for 0.5 s"
        ):
            Iperf2Engine(journal).run(ConnectSpec(connects=10), pod1, pod2)
        assert not [entry for entry in journal.entries if "iperf" in entry.name]
    finally:
        built.close()


def test_a_client_that_connects_slowly_is_waited_for(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps: a line comes every 0.3 s, and all take longer than one may; then a client that stops."""
    monkeypatch.setattr(engine, "_STALL_S", 1.0)
    lines = "import time\nfor _ in range(6):\n    print('connected', flush=True)\n    time.sleep(0.3)\n"
    for more, said in (("", None), ("time.sleep(60)\n", "iperf made no connect for 1 s")):
        log = journal.directory / "iperf-log"
        process = spawn(journal, "iperf client", [sys.executable, "-c", lines + more], log=log)
        try:
            with nullcontext() if said is None else pytest.raises(GeneratorError, match=said):
                await_end(process, "iperf", engine._stalls())
        finally:
            process.kill()
            log.unlink()


def _waiting(end: StreamEnd) -> int:
    """Sockets in TIME_WAIT of a namespace."""
    lines = inside_netns(end.namespace, lambda: Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:])
    return sum(line.split()[3] == _TIME_WAIT for line in lines)
