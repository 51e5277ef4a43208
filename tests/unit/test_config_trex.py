"""The TRex keys of a testbed file: read, written again, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.config.testbed_file import load_testbed, yaml_of_testbed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import Testbed, TrexRoute, TrexSpec
from tests.config_support import parse_testbed

LAB = """\
schema: 1
name: trex
generator:
  engine: trex
  server: tgen1
  ports: [0, 1]
  trex:
    rx_delay: 250 ms
    rpc_port: 5501
    event_port: 5500
    routes: [{port: 1, source: 10.0.0.2, gateway: 10.0.0.1, vlan: 7}]
"""


def parsed(text: str) -> Testbed:
    return parse_testbed(text, "lab.yaml", cores=8)[0]


def test_every_key_is_read() -> None:
    assert parsed(LAB).generator.trex == TrexSpec(
        rx_delay_s=0.25,
        rpc_port=5501,
        event_port=5500,
        routes=(TrexRoute(1, "10.0.0.2", "10.0.0.1", 7),),
    )


def test_what_is_written_reads_back_to_the_same() -> None:
    assert parsed(yaml_of_testbed(parsed(LAB))) == parsed(LAB)


def test_a_recording_is_found_beside_its_testbed_file(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text("schema: 1\nname: x\ngenerator: {engine: replay, recording: bug.jsonl}\n")
    assert load_testbed(lab)[0].generator.recording == str(tmp_path / "bug.jsonl")


MISTAKES = [
    ("engine: trex", "engine: embedded", "engine 'embedded' has no server: write 'engine: trex' or leave 'server' out"),
    (
        "engine: trex\n  server: tgen1",
        "engine: embedded",
        "engine 'embedded' has no trex: write 'engine: trex' or leave 'trex' out",
    ),
    ("  server: tgen1\n", "", "engine 'trex' needs its server: write e.g. 'server: tgen1'"),
    ("port: 1,", "port: 3,", "port 3 is not one of generator.ports [0, 1]"),
    ("rpc_port: 5501", "start: {path: /opt/trex}", "trex.start: the key 'start' is gone: start TRex's server"),
    ("250 ms", "250", "'250' has no unit: write '250 us'"),
    ("250 ms", "2 min", "120 s is outside 0..60 s: write e.g. '500 ms'"),
    ("gateway: 10.0.0.1", "gateway: fe80::1", "'fe80::1' is not an IPv4 address"),
    ("engine: trex\n  server: tgen1", "engine: replay", "engine 'replay' has no trex"),
    ("engine: trex", "engine: trex\n  recording: x", "engine 'trex' plays no recording: write 'engine: replay'"),
]


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES, ids=[new[:30] for _, new, _ in MISTAKES])
def test_mistakes_say_what_to_write(old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError) as told:
        parsed(LAB.replace(old, new))
    assert message in str(told.value)


def test_a_replay_needs_its_recording() -> None:
    with pytest.raises(ConfigError, match=r"engine 'replay' needs a recording: write e\.g\. 'recording"):
        parsed("schema: 1\nname: x\ngenerator: {engine: replay}\n")
