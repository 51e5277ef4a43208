"""A user's project: the conftest line of the documents and one suite. For tests that run pytest in pytest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcapng

CONFTEST = """
pytest_plugins = ["pytest_nfvperf.fixtures.all"]
"""

SUITE = '''
import pytest
from pytest_nfvperf import Traffic, sweep

@sweep("frame_size", [64, 1518], quick={64})
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    """Steps: search. Verify: the SLA."""
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))
'''

IN_TRIAL = """
def in_trial(session, what):
    "Do it once, when the trial begins: not in the warm-up, nor in between."
    generator = session.rig.generator()
    run_trial = generator.run_trial
    def watched(spec):
        if spec.purpose != "warm-up":
            generator.run_trial = run_trial
            what()
        return run_trial(spec)
    generator.run_trial = watched
"""
"""Of a test file: does something to the testbed while a trial runs."""


def make_project(pytester: pytest.Pytester, suite: str = SUITE, conftest: str = CONFTEST) -> pytest.Pytester:
    """Write the project: conftest.py and mine/test_mine.py."""
    pytester.makeconftest(conftest)
    folder = pytester.path / "mine"
    folder.mkdir(exist_ok=True)
    (folder / "test_mine.py").write_text(suite)
    return pytester


@cache
def ordinary_user() -> tuple[str, ...] | None:
    """What runs a command as an ordinary user whose files are ours; None where this machine cannot.

    Root becomes nobody in a user namespace. Another user's folder and interpreter would be closed to nobody's.
    """
    if os.geteuid() != 0:
        return ()
    command = (str(shutil.which("unshare")), "--user")
    return command if subprocess.run([*command, "true"], check=False).returncode == 0 else None


INCONCLUSIVE = 10
MOST_TAKEN = 0.03
"""Of a CPU. Where the host gives it to others for longer than that, a run may find no trial that can be judged."""


def needs_a_verdict(status: int, terminal: str) -> None:
    """Skip the test where its run of pytest could not judge, and this machine is as disturbed as the run says.

    A run that is inconclusive on a quiet machine fails the test.
    """
    if status == INCONCLUSIVE:
        taken = max(map(_taken, os.sched_getaffinity(0)))
        assert taken > MOST_TAKEN, terminal
        pytest.skip(f"the run was inconclusive: others take {taken:.0%} of a CPU of this machine")


def _taken(cpu: int) -> float:
    """Share of half a second in which this thread wanted the CPU, and did not have it."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        began = last = time.perf_counter()
        gaps = 0.0
        while last - began < 0.5:
            now = time.perf_counter()
            gaps += now - last if now - last > 0.0002 else 0.0
            last = now
    finally:
        os.sched_setaffinity(0, allowed)
    return gaps / (last - began)


PROFILE = """
import argparse
from trex_stl_lib.api import *

class Mixed:
    def get_streams(self, tunables=(), **kwargs):
        parser = argparse.ArgumentParser()
        parser.add_argument("--clients", type=int, default=254)
        last = parser.parse_args(tunables).clients
        streams = []
        for size, pps in ((60, 28), (590, 16), (1514, 4)):
            base = Ether() / IP() / UDP()
            vm = STLVM()
            vm.var(name="src", min_value="16.0.0.1", max_value=f"16.0.0.{last}", size=4, op="inc")
            vm.write(fv_name="src", pkt_offset="IP.src")
            vm.fix_chksum()
            packet = STLPktBuilder(pkt=base / ("x" * (size - len(base))), vm=vm)
            streams.append(STLStream(packet=packet, mode=STLTXCont(pps=pps)))
        return streams

def register():
    return Mixed()
"""


def make_traffic_files(directory: Path) -> None:
    """The capture and the STL profile that the documents name."""
    hosts = IP(src="10.1.0.1", dst="10.2.0.1")
    sent = [UDP(dport=53) / DNS(qd=DNSQR(qname="www.example.com")), TCP(flags="A"), TCP(flags="PA") / (b"x" * 400)]
    wrpcapng(str(directory / "customer.pcapng"), [Ether() / hosts / each for each in sent])
    (directory / "stl").mkdir()
    (directory / "stl/imix.py").write_text(PROFILE)


def records(project: Path, kind: str) -> list[dict[str, Any]]:
    """Evidence records of one kind from the newest run."""
    lines = (project / "reports" / "latest" / "evidence.jsonl").read_text().splitlines()
    return [record for line in lines if (record := json.loads(line))["kind"] == kind]
