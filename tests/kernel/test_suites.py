"""The chaining suite in a guest: TCP through chains of the kernel's datapath, and the guard of Linux bridges, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.virtual_time.guest_run import SHARED, run_in_guest
from pytest_nfvperf.model.sla.verdict import Judgement
from tests.functional.ovs_support import clean_run
from tests.kernel.inner_tests import InnerTest, check, pytest_command, results

pytestmark = pytest.mark.kernel

RESULTS = "results"
TESTBED = """
schema: 1
name: kernel-guest
dut:
  ovs: {instance: private, datapath: system}
generator: {engine: embedded}
cpus: {housekeeping: [0], generator: [0], pmd: [1]}
"""
SLA = """
schema: 1
rules:
  - name: TCP passes
    where: {suite: chaining, test: test_tcp_chain, datapath: system}
    require: {tcp_throughput: ">= 1 Mbps"}
  - name: a chain is as fast as a bridge
    where: {suite: chaining, test: test_tcp_chain, datapath: system, bridges: 9}
    require: {tcp_throughput: ">= 1 % of {bridges: 1}"}
"""
LIGHT = ("-p", "no:hypothesispytest", "-p", "no:allure_pytest")  # what is not needed takes seconds to import there


@pytest.fixture(scope="module")
def chaining(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[InnerTest, ...], Path]]:
    """The suite's tests of these datapaths as they ended in the guest, and where their evidence is."""
    shared = tmp_path_factory.mktemp("guest")
    (shared / "kernel.yaml").write_text(TESTBED)
    (shared / "sla.yaml").write_text(SLA)
    files = {"testbed": SHARED / "kernel.yaml", "sla": SHARED / "sla.yaml", "results": SHARED / RESULTS}
    options = files | {"report": "none"}
    two_cpus = "default:CPU 0 is shared"  # a warning, which our own configuration makes an error
    arguments = [
        "-W",
        two_cpus,
        "-k",
        "system or linux-bridge",
        *(f"--nfv-{name}={value}" for name, value in options.items()),
        *LIGHT,
    ]
    with clean_run() as journal:
        command = pytest_command("suites/chaining", *arguments)
        yield results(run_in_guest(journal, kernel, command, shared, deadline_s=300)), shared / RESULTS


@pytest.mark.parametrize(("module", "function"), [("test_tcp", "test_tcp_chain"), ("test_guard", "test_no_firewall")])
def test_the_suite_measures_in_the_guest(
    chaining: tuple[tuple[InnerTest, ...], Path], module: str, function: str
) -> None:
    cases, _ = chaining
    check(cases, f"suites.chaining.{module}", function, never_skipped="system")


def test_its_evidence_says_what_was_measured_where(chaining: tuple[tuple[InnerTest, ...], Path]) -> None:
    _, results_directory = chaining
    run = read_run(next(path for path in results_directory.iterdir() if path.is_dir()))
    measured = {
        (outcome.label["datapath"], outcome.label["link"], outcome.label["bridges"]): outcome
        for outcome in run.outcomes.values()
    }
    assert measured.keys() == {("system", "patch", "1"), ("system", "patch", "9")}
    assert all(outcome.samples for outcome in measured.values())
    verdicts = [verdict for test in run.tests.values() for verdict in test.verdicts.values()]
    assert Counter((verdict.rule.rpartition(" ")[2], verdict.judgement) for verdict in verdicts) == {
        ("rules[0]", Judgement.PASS): 2,
        ("rules[1]", Judgement.PASS): 1,
    }
