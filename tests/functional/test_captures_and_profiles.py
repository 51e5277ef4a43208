"""Captures and STL profiles on a real engine: what it puts into a file, as scapy reads it, and what it knows again."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from pytest_nfvperf import Traffic
from pytest_nfvperf.model.traffic.frame_program import FrameProgram, frame_of
from pytest_nfvperf.model.traffic.mix import TrafficMix, classes_of
from tests.functional.engine_talk import talk, talks
from tests.functional.test_frame_programs import Files, files, number_of, program, signed_again
from tests.unit.test_captures import CAPTURES, padded, recomputed, signature_layout, walk
from tests.unit.test_stl_profiles import IMIX, RANGE_OF_CLIENTS, SYN_ATTACK

__all__ = ["files", "talk", "talks"]


def numbered(caught: list[bytes], made: FrameProgram) -> None:
    """Each frame is the program's, byte for byte but for its signature, and has the checksums that scapy computes."""
    for number, frame in enumerate(caught):
        template = made.order[number % len(made.order)]
        at = made.signatures[template]
        assert number_of(frame, at) == number
        assert frame == frame_of(made, template, number % made.combinations, frame[at : at + 14])
        assert recomputed(frame) == frame


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_is_sent_as_its_file_says_and_known_again(files: Files, name: str, tmp_path: Path) -> None:
    packets = CAPTURES[name][0]()
    wrpcap(str(tmp_path / "it.pcap"), packets)
    made = program(Traffic.from_pcap(tmp_path / "it.pcap"))
    caught = files.sent(made)

    numbered(caught, made)
    kept = [
        padded(each) for each in packets if not isinstance(signature_layout(walk(padded(each)), len(padded(each))), str)
    ]
    wanted = [kept[number % len(kept)] for number in range(len(caught))]
    assert [len(frame) for frame in caught] == [len(frame) for frame in wanted]
    assert [frame[12:34] for frame in caught] == [frame[12:34] for frame in wanted]
    answer = files.received(made, signed_again(made, caught))
    assert (answer["streams"][0]["received"], answer["streams"][0]["corrupted"]) == (len(caught), 0)


def test_a_byte_of_a_captured_frame_that_changed_is_corrupted(files: Files, tmp_path: Path) -> None:
    wrpcap(str(tmp_path / "it.pcap"), CAPTURES["gtp_u"][0]())
    made = program(Traffic.from_pcap(tmp_path / "it.pcap"))
    caught = signed_again(made, files.sent(made))
    changed = [frame[:-1] + bytes([frame[-1] ^ 1]) if number == 3 else frame for number, frame in enumerate(caught)]

    assert files.received(made, changed)["streams"][0]["corrupted"] == 1


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "profile.py"
    path.write_text(textwrap.dedent(text).lstrip())
    return path


def test_a_range_of_clients_is_sent_as_the_profile_says(files: Files, tmp_path: Path) -> None:
    made = program(Traffic.from_trex(written(tmp_path, RANGE_OF_CLIENTS), {"clients": 50}))
    caught = files.sent(made, least=51)

    numbered(caught, made)
    packets = [Ether(frame) for frame in caught[:51]]
    assert [each[IP].src for each in packets] == [f"55.55.0.{n}" for n in (*range(1, 51), 1)]
    assert [each.src for each in packets] == [f"00:00:dd:dd:00:{n:02x}" for n in (*range(1, 51), 1)]


def test_a_syn_flood_is_sent_as_the_profile_says(files: Files, tmp_path: Path) -> None:
    made = program(Traffic.from_trex(written(tmp_path, SYN_ATTACK), frame_size=72))
    caught = files.sent(made)

    numbered(caught, made)
    packets = [Ether(frame) for frame in caught]
    assert {(each[IP].dst, each[TCP].dport, str(each[TCP].flags), len(each)) for each in packets} == {
        ("48.0.0.1", 80, "S", 68)
    }
    assert len({(each[IP].src, each[TCP].sport) for each in packets}) == len(packets)


def test_an_imix_of_streams_is_sent_as_the_profile_says(files: Files, tmp_path: Path) -> None:
    mix = Traffic.from_trex(written(tmp_path, IMIX))
    assert isinstance(mix, TrafficMix)
    caught = files.sent(*(program(each.traffic) for each in classes_of(mix)))

    assert set(Counter(map(len, caught))) == {60, 590, 1514}
    assert all(recomputed(frame) == frame for frame in caught)
    for size in (60, 590, 1514):
        sources = [Ether(frame)[IP].src for frame in caught if len(frame) == size]
        assert sources == [f"16.0.0.{1 + number % 254}" for number in range(len(sources))]
