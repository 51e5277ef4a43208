"""Instructions per packet of bridge chains on the kernel datapath, in virtual time; judged as any other figure is."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.virtual_time.guest_run import SHARED, VIRTUAL_TIME, run_in_guest
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.verdict import Judgement
from tests.config_support import parse_sla
from tests.kernel.chain_cost import PASSED_A_DEADLINE, ChainCost
from tests.kernel.inner_tests import ROOT

pytestmark = [pytest.mark.kernel, pytest.mark.daily("boots an emulated guest up to three times")]

BOOTS = 3
BRIDGES = (1, 2, 4)
FILE = "chain_cost.jsonl"
# patch ports are resolved when a flow is translated, so another bridge costs nothing
SLA = """
schema: 1
rules:
  - where: {link: patch}
    require: {instructions_per_packet: "<= 100.5 % of {bridges: 1}"}
"""


def test_a_bridge_more_costs_nothing_by_patch_ports_and_the_same_each_by_veth(
    journal: Journal, kernel: Kernel, tmp_path: Path
) -> None:
    lines = measured(journal, kernel, tmp_path).read_text(encoding="ascii").splitlines()
    costs = {(cost.link, cost.bridges): cost for cost in map(ChainCost.from_json, lines)}
    assert {cost.datapath for cost in costs.values()} == {"system"}
    for cost in costs.values():
        figures = [sample.instructions_per_packet for sample in cost.samples]
        assert max(figures) <= 1.005 * min(figures), f"samples of one chain differ: {cost}"
    patch_is_flat(costs)
    veth_rises_evenly(costs)


def measured(journal: Journal, kernel: Kernel, tmp_path: Path) -> Path:
    """The program's file, from the first of a few boots in which no deadline passed while the guest waited."""
    program = [sys.executable, "-m", "tests.kernel.chain_cost", "--to", str(SHARED / FILE)]
    command = ["env", "-C", str(ROOT), *program, "--bridges", *map(str, BRIDGES)]
    for boot in range(BOOTS):
        shared = tmp_path / f"boot{boot}"
        shared.mkdir()
        run = run_in_guest(journal, kernel, command, shared, machine=VIRTUAL_TIME, deadline_s=180)
        if run.status != PASSED_A_DEADLINE:
            break
    assert run.status == 0, str(run)
    return shared / FILE


def patch_is_flat(costs: dict[tuple[str, int], ChainCost]) -> None:
    one = [costs["patch", 1].samples[0].figure()]
    for number in BRIDGES:
        labels = {"link": "patch", "bridges": str(number)}
        seen = [costs["patch", number].samples[0].figure()]
        (verdict,) = judge(parse_sla(SLA).rules, labels, seen, lambda _: one)
        assert verdict.judgement is Judgement.PASS, verdict


def veth_rises_evenly(costs: dict[tuple[str, int], ChainCost]) -> None:
    mean = {number: costs["veth", number].samples[0].instructions_per_packet for number in BRIDGES}
    steps = [(mean[more] - mean[less]) / (more - less) for less, more in pairwise(BRIDGES)]
    assert min(steps) > 1000, f"a veth pair and another lookup cannot be that cheap: {steps} instructions a bridge"
    assert max(steps) <= 1.05 * min(steps), f"each bridge should cost the same: {steps} instructions"
