"""``speakers`` of testbed files: routing daemons that run already."""

from __future__ import annotations

import pytest

from pytest_nfvperf.config.testbed_file import yaml_of_testbed
from pytest_nfvperf.model.testbed.testbed import (
    LabSpeaker,
)
from tests.config_support import parse, refusal

SPEAKERS = """\
schema: 1
name: lab with routing
speakers:
  - {name: dut, engine: frr, socket: /run/frr}
  - {name: tester, engine: bird, socket: /run/bird/bird.ctl, announces: {198.18.0.0/15: clients}}
"""


def test_speakers_that_run_already():
    testbed, _ = parse(SPEAKERS)
    assert testbed.speakers == (
        LabSpeaker("dut", "frr", "/run/frr"),
        LabSpeaker("tester", "bird", "/run/bird/bird.ctl", (("198.18.0.0/15", "clients"),)),
    )
    assert parse(yaml_of_testbed(testbed))[0] == testbed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("engine: bird", "engine: birdd", "lab.yaml:5: speakers[1].engine: "),
        ("name: tester", "name: dut", "speakers[1].name: 'dut' is used twice"),
        ("198.18.0.0/15", "198.18.0.1/15", "'198.18.0.1/15' is not a prefix: 198.18.0.1/15 has host bits set"),
        ("socket: /run/frr}", "socket: /run/frr, announces: {10.0.0.0/8: x}}", "leave 'announces' out"),
    ],
)
def test_speakers_that_cannot_be(old, new, message):
    assert old in SPEAKERS
    assert message in refusal(SPEAKERS.replace(old, new, 1))
