"""Traffic files: what they say, what they refuse, and what is sent in place of a test's own traffic."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.gtp import GTP_U_Header
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from pytest_nfvperf import IMIXES, Traffic
from pytest_nfvperf.config.traffic_file import load_traffic, packet_of, raised
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.conversation import Conversation
from pytest_nfvperf.model.traffic.mix import TrafficMix
from pytest_nfvperf.model.traffic.traffic import Imix
from tests.config_support import parse_traffic

PACKET = 'packet: Ether()/Dot1Q(vlan=10)/IP(dst="198.19.0.1")/TCP(dport=80, flags="S")'


def read(text: str) -> Any:
    return parse_traffic("schema: 1\n" + textwrap.dedent(text).lstrip(), "sent.yaml")


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value)


# Packets as text.


def test_a_packet_is_what_scapy_builds():
    text = 'Ether()/IP(src="10.0.0.1")/UDP(dport=2152)/GTP_U_Header(teid=7)/IP()/TCP(options=[("MSS", 1460)])/b"x"'
    inner = IP() / TCP(options=[("MSS", 1460)]) / b"x"

    outer = Ether() / IP(src="10.0.0.1") / UDP(dport=2152) / GTP_U_Header(teid=7)
    assert bytes(packet_of(text)) == bytes(outer / inner)


def test_layers_stand_in_fields_and_texts_are_repeated():
    made = packet_of('Ether()/IP()/UDP(sport=53)/DNS(qd=[DNSQR(qname="a.example")])/("x" * 3)')

    assert made.command() == ("Ether()/IP()/UDP(sport=53)/DNS(qd=[DNSQR(qname=b'a.example.')])/Raw(load=b'xxx')")
    assert packet_of("Ether()/IP(ttl=-1)").ttl == -1


def test_layers_of_a_contribution_are_loaded_by_name():
    assert packet_of("Ether()/MPLS(label=5)/IP()").command() == "Ether()/MPLS(label=5)/IP()"
    assert packet_of("Ether()/LACP()", ["lacp"]).layers()[1].__module__ == "scapy.contrib.lacp"


NO_PACKETS = {
    "Ether/IP": "'Ether' cannot be used in a packet: write Ether(), with parentheses",
    "Ether()/IP(1)": "'IP(1)' cannot be used in a packet: name the fields of IP, such as IP(field=value)",
    "Ether()/Ip()": (
        "scapy has no layer 'Ip', did you mean 'IP' or 'RIP'? A layer of its contributions is found with 'load', such "
        "as load: [nsh]"
    ),
    "Ether()/IP(dest='x')": (
        "IP has no field 'dest', did you mean 'dst'? (it has version, ihl, tos, len, id, flags, frag, ttl, proto, "
        "chksum, src, dst, options)"
    ),
    "Ether()/": "'Ether()/' is no packet: write e.g. Ether()/IP()/UDP()",
    "'text'": "\"'text'\" is no packet: write layers with parentheses, such as Ether()/IP()/UDP()",
    "Ether()/5": "'Ether()/5' cannot be used in a packet: '/' joins layers, or a layer and its payload, such as "
    "UDP()/b'text'",
    "Ether()/Raw(load=b'x' * 10000)": "\"b'x' * 10000\" cannot be used in a packet: at most 9216 bytes fit a frame",
    "__import__('os').system('true')": (
        "\"__import__('os').system('true')\" cannot be used in a packet: only layers, their fields by name, numbers, "
        "texts and lists can be written"
    ),
    "Ether()/IP(src=open('/etc/passwd').read())": (
        "\"open('/etc/passwd').read()\" cannot be used in a packet: only layers, their fields by name, numbers, texts "
        "and lists can be written"
    ),
    "[Ether() for _ in (1, 2)]": (
        "'[Ether() for _ in (1, 2)]' cannot be used in a packet: only layers, their fields by name, numbers, texts "
        "and lists can be written"
    ),
}


@pytest.mark.parametrize("text", NO_PACKETS)
def test_a_text_that_is_no_packet(text: str):
    with pytest.raises(ConfigError) as caught:
        packet_of(text)
    assert str(caught.value) == NO_PACKETS[text]


@given(st.text(max_size=60))
def test_any_text_is_a_packet_or_a_sentence(text: str):
    try:
        made = packet_of(text)
    except ConfigError:
        return
    assert hasattr(made, "command")


@given(
    st.sampled_from(["eval('1')", "Ether.__class__", "IP().__init__()", "print()", "globals()", "conf", "lambda: 0"])
)
def test_no_code_is_run(code: str):
    for text in (code, f"Ether()/{code}", f"Ether()/IP(src={code})"):
        with pytest.raises(ConfigError):
            packet_of(text)


def test_a_module_that_scapy_does_not_have():
    for name in ("nosuch", "../gtp", "os"):
        with pytest.raises(ConfigError, match="has no module"):
            packet_of("Ether()", [name])


# In place of a test's traffic.


def test_frame_sizes_are_the_tests_where_the_file_gives_none():
    given_traffic = read(f"{PACKET}\nvary: [{{field: IP.dst, count: 100, order: random}}]")

    sizes = [given_traffic.replacement_for(Traffic(frame_size=size)).frame_size for size in (64, 128, 1518)]
    assert sizes == [76, 128, 1518]
    made = given_traffic.replacement_for(Traffic(frame_size=128, bidirectional=False))
    assert (made.headers_label, made.bidirectional, made.combinations) == ("vlan-tcp", False, 100)


def test_an_imix_of_a_test_has_sizes_that_hold_the_headers():
    given_traffic = read(PACKET)

    made = given_traffic.replacement_for(Traffic(frame_size=IMIXES["simple"]))
    assert made.frame_size == Imix("simple-from-76", ((76, 7), (594, 4), (1518, 1)))


def test_sizes_that_become_the_same_are_added_up():
    assert raised(Imix("three", ((64, 1), (70, 2), (200, 3))), 100) == Imix("three-from-100", ((100, 3), (200, 3)))
    assert raised(IMIXES["simple"], 64) is IMIXES["simple"]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ("frame_size: 256", 256),
        ("imix: simple", IMIXES["simple"]),
        ("imix: [[128, 3], [512, 1]]", Imix("file", ((128, 3), (512, 1)))),
    ],
)
def test_sizes_of_the_file_replace_those_of_the_tests(sizes: str, expected: Any):
    given_traffic = read(f"packet: Ether()/IP()/UDP()\n{sizes}")

    assert {given_traffic.replacement_for(Traffic(frame_size=size)).frame_size for size in (64, 1518)} == {expected}
    assert given_traffic.sized


def test_what_was_replaced_is_not_replaced_again():
    given_traffic = read(f"{PACKET}\nbidirectional: false")
    made = given_traffic.replacement_for(Traffic(frame_size=64))

    assert given_traffic.replacement_for(made) == made
    assert not made.bidirectional


def test_a_tests_own_mix_stays():
    mix = TrafficMix(a=(Traffic(), "50 %"), b=(Traffic(frame_size=128), "50 %"))

    assert read(PACKET).replacement_for(mix) is mix


def test_a_tests_own_conversation_stays():
    conversation = Conversation.udp()
    assert read(PACKET).replacement_for(conversation) is conversation


def test_classes_are_a_mix_with_the_tests_sizes_where_they_have_none(tmp_path: Path):
    path = tmp_path / "sent.yaml"
    packets = [Ether() / IP() / UDP(sport=1, dport=2) / (b"x" * n) for n in (20, 600)]
    wrpcap(str(tmp_path / "web.pcap"), packets)
    path.write_text(
        textwrap.dedent(
            """
            schema: 1
            classes:
              voice: {share: 10 %, packet: "Ether()/IP(tos=184)/UDP()", frame_size: 200}
              web: {share: 0.3, pcap: web.pcap, sends: forward}
              bulk: {share: 60 %}
            """
        )
    )
    with pytest.raises(ConfigError, match="shares of direction reverse add up to 70 %"):
        load_traffic(path)
    path.write_text(path.read_text().replace(", sends: forward", ""))

    made = load_traffic(path).replacement_for(Traffic(frame_size=512))
    assert isinstance(made, TrafficMix)
    assert [(each.name, each.share, each.traffic.mean_frame_size) for each in made.classes] == [
        ("voice", 0.1, 200),
        ("web", 0.3, (66 + 646) / 2),
        ("bulk", 0.6, 512),
    ]


def test_a_capture_or_a_profile_is_taken_as_it_is(tmp_path: Path):
    wrpcap(str(tmp_path / "some.pcap"), [Ether() / IP() / UDP(sport=1, dport=2) / (b"x" * 30)])
    made = load_traffic(tmp_path / "some.pcap").replacement_for(Traffic(frame_size=1518))

    assert (made.headers_label, made.mean_frame_size) == ("some", 76)


# What must be equal for figures to be compared.


def test_the_digest_is_of_what_is_sent_not_of_how_it_is_written(tmp_path: Path):
    one = read(f"{PACKET}\nframe_size: 128")
    assert one.digest == read(f"# the same\nframe_size: 128\n{PACKET}").digest
    assert one.digest != read(f"{PACKET}\nframe_size: 129").digest
    assert one.identity == f"vlan-tcp {one.digest[:12]}"

    path = tmp_path / "some.pcap"
    digests = []
    for load in (b"x" * 30, b"y" * 30):
        wrpcap(str(path), [Ether() / IP() / UDP(sport=1, dport=2) / load])
        digests.append(load_traffic(path).digest)
    assert digests[0] != digests[1]


def test_lines_show_layers_sizes_fields_and_a_frame():
    lines = read(
        f"{PACKET}\nvary: [{{field: IP.dst, count: 1000, order: random}}, {{field: TCP.sport, count: 64, step: 2}}]\n"
        "together: false"
    ).lines()

    assert lines[:-1] == [
        "traffic of sent.yaml, in place of the tests' own:",
        "  Ether / Dot1Q / IP / TCP",
        "    frame sizes as the tests say, at least 76",
        "    IP.dst has 1,000 values, in a fixed random order, with every frame the next one",
        "    TCP.sport has 64 values, by 2, with every frame the next one",
    ]
    frame = Ether(bytes.fromhex(lines[-1].removeprefix("    one frame: ")))
    assert (frame[IP].dst, frame[TCP].dport) == ("198.19.0.1", 80)


# Mistakes.


MISTAKES = {
    "packet: Ether()/IPX()\n": "sent.yaml:2: packet: scapy has no layer 'IPX', did you mean",
    "packet: Ether()\nvary: [{field: IP.dst, count: 5}]\n": "sent.yaml:3: vary[0]: 'IP' is no layer of Ether.",
    f"{PACKET}\nvary: [{{field: IP.dest, count: 5}}]\n": (
        "sent.yaml:3: vary[0]: 'dest' is no field of IP, did you mean 'dst'?"
    ),
    f"{PACKET}\nvary: [{{field: Dot1Q.vlan, count: 5000}}]\n": "sent.yaml:3: vary[0]: Dot1Q.vlan has 12 bits",
    f"{PACKET}\nvary: [{{field: IP.dst, count: 0}}]\n": "sent.yaml:3: vary[0].count: must be at least 1, not 0",
    f"{PACKET}\nvary: [{{feild: IP.dst, count: 3}}]\n": "sent.yaml:3: vary[0].feild: unknown key 'feild'",
    f"{PACKET}\nframe_size: 64\n": "sent.yaml:3: frame_size: Ether / Dot1Q / IP / TCP needs at least 76 bytes",
    f"{PACKET}\nframe_size: 64\nimix: simple\n": "sent.yaml:4: imix: excludes 'frame_size': keep one of the two",
    f"{PACKET}\nimix: simpel\n": "sent.yaml:3: imix: 'simpel' is no IMIX, did you mean 'simple'?",
    f"{PACKET}\npcap: a.pcap\n": "sent.yaml:3: pcap: excludes 'packet': keep one of the two",
    "tunables: {size: 3}\n": "sent.yaml:2: tunables: is of 'trex', which is not there: write it, too",
    "frame_size: 64\nvary: [{field: IP.dst, count: 3}]\n": "sent.yaml:3: vary: is of 'packet', which is not there",
    "pcap: none.pcap\n": "sent.yaml:2: pcap: none.pcap: cannot be read: No such file or directory",
    "trex: none.py\n": "sent.yaml:2: trex: none.py: is no file: name an STL profile of TRex, such as stl/imix.py",
    "pcap: none.pcap\nframe_size: 64\n": "sent.yaml:3: frame_size: a capture has its own frame sizes: leave this out",
    f"{PACKET}\nchecksums: wrong\n": "sent.yaml:3: checksums: must be right or as given, not 'wrong'",
    f"{PACKET}\nload: [nosuch]\n": "sent.yaml:2: packet: scapy.contrib has no module 'nosuch': write e.g. load: [gtp]",
    "classes:\n  a: {share: 50 %}\n  b: {share: 40 %}\n": "sent.yaml:2: classes: TrafficMix(): the shares",
    "classes:\n  a: {share: much}\n": "sent.yaml:3: classes.a.share: 'much' is not a ratio",
    "classes:\n  a: {share: 100 %, packet: Ether()/IP(x=1)}\n": "sent.yaml:3: classes.a.packet: IP has no field 'x'",
    "classes:\n  a: {frame_size: 64}\n": "sent.yaml:3: classes.a.share: is missing: write e.g. 'share: 10 %'",
    "frame_size: 64\nclasses:\n  a: {share: 100 %}\n": "sent.yaml:2: frame_size: stands beside classes: write it into",
    "classes:\n" + "".join(f"  c{n}: {{share: 10 %}}\n" for n in range(9)): (
        "sent.yaml:2: classes: TrafficMix(): 9 classes, and 1 to 8 can be sent"
    ),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_with_file_line_and_key(text: str):
    assert refusal(text).startswith(MISTAKES[text])


def test_a_file_without_a_schema_and_an_empty_one(tmp_path: Path):
    path = tmp_path / "sent.yaml"
    path.write_text("packet: Ether()\n")
    with pytest.raises(ConfigError, match=r"sent.yaml:1: schema: is missing: write e.g. 'schema: 1'"):
        load_traffic(path, "sent.yaml")
    path.write_text("")
    with pytest.raises(ConfigError, match="is empty: write 'schema: 1'"):
        load_traffic(path)
