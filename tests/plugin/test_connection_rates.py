"""Rates of connections as a suite measures them, on a simulated DUT: what lines, tables and failures say."""

from __future__ import annotations

import pytest
from user_project import CONFTEST, make_project, records

SUITE = """
import pytest_nfvperf as nfv

WEB = nfv.Conversation.tcp()

def test_rate(phy2phy, search, sla):
    sla.check(search.connection_rate(phy2phy, WEB, latency=True))

def test_loss(phy2phy, search, sla):
    sla.check(search.loss_at(phy2phy, WEB, 100_000, 1.0))

def test_few_ports(phy2phy, search):
    search.loss_at(phy2phy, nfv.Conversation.tcp(ports=range(2000, 2100)), 100_000, 1.0)

@nfv.compares("bridges", [1, 3])
def test_chains(bridges, study, sla):
    chains = [nfv.Subject(str(number), nfv.bridge_chain(number)) for number in bridges]
    sla.check_each(study.connection_rate("bridges", chains, WEB))

def test_soak(phy2phy, soak, sla):
    sla.check(soak.run(phy2phy, WEB, load_fps=50_000, duration_s=10))

@nfv.sweep("most", (20_000, 60_000))
def test_held(most, phy2phy, search, sla):
    sla.check(search.concurrent(phy2phy, WEB, most=most, rate=10_000))

def test_too_few_ports(phy2phy, search, sla):
    sla.check(search.concurrent(phy2phy, WEB, most=100_000))

def test_frames(phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, WEB))
"""

SIMULATED = """
from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.adapters.generators.fake import FakeGenerator

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(86_300, refuse=False, ceiling_fps=200_000, table=50_000))
"""

SLA = """
schema: 1
rules:
- where: {test: test_rate}
  require: {connection_rate: '>= 90 kconn/s', latency_p99: {at: 50 % of connection_rate, limit: <= 1 ms}}
- {where: {test: test_loss}, require: {failed_connections: {at: 100 kconn/s, limit: '<= 0 connections'}}}
- {where: {test: test_held}, require: {concurrent_connections: '>= 55000 connections'}}
- {where: {test: test_chains, bridges: 3}, require: {connection_rate: '>= 95 % of {bridges: 1}'}}
"""


@pytest.fixture
def ran(pytester):
    make_project(pytester, SUITE, CONFTEST + SIMULATED)
    (pytester.path / "mine" / "sla.yaml").write_text(SLA)
    return pytester.runpytest_subprocess("mine", "--nfv-report", "none", "--nfv-profile", "quick")


def test_lines_and_failures_are_about_connections(ran, pytester):
    ran.stdout.fnmatch_lines(
        [
            "mine/test_rate *86.? kconn/s, p99 * us at 50 % of connection_rate *FAIL*",
            "    connection_rate >= 90 kconn/s: 86.? kconn/s",
            "mine/test_loss *loss at every load, 13.7 % at 100 kconn/s *FAIL*",
            "    failed_connections <= 0 connections at 100 kconn/s: 13,700 connections",
            "mine/test_chains* bridges 1: 86.? kconn/s*PASS*",
            "mine/test_soak *10.0 s at 50.0 kconn/s: 0 lost of 500,000*",
            "mine/test_held*20000* open at once ≥ 20,000 connections *INCONCLUSIVE*",
            "mine/test_held*60000* open at once 50,000 connections *FAIL*",
            "mine/test_too_few_ports*USAGE*",
            "    search.concurrent(): most=100,000 connections need as many * write clients=2",
            "mine/test_frames*USAGE*",
            "    search.ndr_pdr() counts frames: of a conversation measure search.connection_rate()",
            "*rests on: 13,700 lost of 100,000; 13,700 of 100,000 connections failed at",
            "*syn-ack*",
            "*of 50,000 opened, all were answered and closed*",
        ]
    )
    ran.stdout.no_fnmatch_line("*86.? kpps*")
    outcomes = {dict(each["data"]["labels"])["test"]: each["data"] for each in records(pytester.path, "outcome")}
    (rate,) = [each for each in outcomes["test_rate"]["figures"] if each["metric"] == "connection_rate"]
    assert (rate["unit"], outcomes["test_rate"]["mean_frame_size"]) == ("conn/s", 0.0)
    (note,) = outcomes["test_few_ports"]["notes"]
    assert note.startswith("connections failed in a trial of 100,000 on 100 pairs of address and port, each used 1,000")
    assert outcomes["test_soak"]["notes"] == []  # none failed
    steps = [count["steps"] for each in records(pytester.path, "trial") for count in each["data"]["result"]["counts"]]
    assert {tuple(step["name"] for step in counted)[:2] for counted in steps} == {("syn", "syn-ack")}
