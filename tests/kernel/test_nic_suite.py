"""The suite for NICs on emulated ones: one boot, one run on a receive queue a port, and one on two.

Rates are an emulator's, so loads are calm. Asserted are counts, reasons and verdicts on loss. A busy host may make
single tests INCONCLUSIVE, never FAIL.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.virtual_lab import TESTBED, LabNics, run_in_lab
from pytest_nfvperf.features.virtual_time.guest_run import SHARED
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.evidence.records import Cause
from pytest_nfvperf.model.measure.outcome import Outcome
from tests.functional.ovs_support import clean_run
from tests.kernel.inner_tests import pytest_command

pytestmark = [pytest.mark.kernel, pytest.mark.lab]

FRAMES, RATES, LINKS = (f"suites/nic/test_{name}.py::test_" for name in ("frames", "nic_rates", "link_and_functions"))
CALM = [
    *(f"{FRAMES}mac_filter[{destination}]" for destination in ("foreign", "multicast", "broadcast")),
    *(f"{FRAMES}vlan[{tag}]" for tag in ("insert", "strip", "keep")),
    *(f"{FRAMES}checksums[{checksum}]" for checksum in ("tcp", "udp-wrong")),
    f"{FRAMES}pause_frames",
    *(f"{RATES}longest_frame[{longest}]" for longest in ("1500-True", "9000-False")),
]
LACKING = {
    f"{LINKS}link_flap": "the driver net_vmxnet3 cannot take the link of port 'p1' down",
    f"{LINKS}number_of_vfs": "the NIC of port 'dpdk0' has no SR-IOV (sriov_totalvfs in sysfs)",
    "suites/nic/test_queues.py::test_flows_stay": (
        "port 'dpdk0' has 1 receive queue: write 'rxq: 2' or more in dut.ports of the testbed file"
    ),
}
SPREAD = "suites/nic/test_queues.py::test_spread[1000]"


@dataclass(frozen=True)
class Ended:
    """How one test of the suite ended in the guest: passed, skipped or why it failed; and what it measured."""

    status: str
    reason: str
    outcomes: tuple[Outcome, ...]

    def lost_frames(self) -> list[int | None]:
        return [point.lost_frames for outcome in self.outcomes for point in outcome.loss_curve]


def ended(results: Path) -> dict[str, Ended]:
    """How each test of a run ended, by its node id."""
    run = read_run(results / "latest")
    return {
        node: Ended(
            test.end.cause if test.end.status == "failed" else test.end.status,
            test.end.reason,
            tuple(test.outcomes.values()),
        )
        for node, test in run.tests.items()
        if test.end is not None
    }


def words(results: str, testbed: str, *tests: str) -> str:
    """The command of a run, for a shell."""
    options = {"testbed": SHARED / testbed, "results": SHARED / results, "report": "none"}
    given = (f"--nfv-{name}={value}" for name, value in options.items())
    return shlex.join(pytest_command("-W", "default:CPU", *given, *tests))


@pytest.fixture(scope="module")
def runs(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Ended], ...]]:
    """The suite on one receive queue a port, and then on two."""
    shared = tmp_path_factory.mktemp("nics")
    (shared / "two.yaml").write_text(LabNics().testbed().replace("rxq: 1", "rxq: 2"))
    both = f"{words('one', TESTBED, *CALM, *LACKING)}; {words('two', 'two.yaml', SPREAD)}; true"
    with clean_run() as journal:
        run = run_in_lab(journal, kernel, ["bash", "-c", both], shared, LabNics(), deadline_s=400)
    try:
        yield ended(shared / "one"), ended(shared / "two")
    except TestbedError as error:
        pytest.fail(f"{error.message}: {run}")


def test_frames_pass_a_nic_as_they_were_sent(runs: tuple[dict[str, Ended], ...]) -> None:
    found = {test: runs[0][test] for test in CALM}
    failed = {test: end.reason for test, end in found.items() if end.status not in {"passed", Cause.INCONCLUSIVE}}
    assert failed == {}
    passed = [end for end in found.values() if end.status == "passed"]
    assert len(passed) >= len(CALM) // 2, found
    assert all(end.lost_frames() == [0] for end in passed if not end.outcomes[0].classes), passed


def test_pause_frames_slow_nothing(runs: tuple[dict[str, Ended], ...]) -> None:
    end = runs[0][f"{FRAMES}pause_frames"]
    for outcome in end.outcomes:
        data, pause = outcome.classes
        assert (data.name, data.sends, pause.name, pause.sends) == ("data", "forward", "pause", "reverse")
        assert [loss.lost_frames for loss in data.losses] == [0]


def test_what_a_nic_lacks_is_the_reason_of_a_skip(runs: tuple[dict[str, Ended], ...]) -> None:
    assert {test: (runs[0][test].status, runs[0][test].reason) for test in LACKING} == {
        test: ("skipped", reason) for test, reason in LACKING.items()
    }
    assert all(runs[0][test].outcomes == () for test in LACKING)


def test_a_nic_that_does_not_spread_flows_fails(runs: tuple[dict[str, Ended], ...]) -> None:
    """QEMU's vmxnet3 puts all frames into its first queue, however many it has."""
    end = runs[1][SPREAD]
    assert end.status in {Cause.SLA, Cause.INCONCLUSIVE}, end
    for port in (port for outcome in end.outcomes for port in outcome.queue_frames):
        first, second = port.frames
        assert (first > 0, second, port.imbalance) == (True, 0, 2.0)
    if end.status == Cause.SLA:
        assert {port.port for port in end.outcomes[0].queue_frames} == {"p0", "p1"}
        assert end.reason.startswith("SLA of nic test_spread: phy2phy, frame 128, flows 1000, bidirectional, dpdk: ")
        assert "1 FAIL" in end.reason
