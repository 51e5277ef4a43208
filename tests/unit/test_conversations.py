"""Conversations: scapy reads each step's frames, the engine's request has a stream a step, and rows become counts."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import Dot1Q, Ether

from pytest_nfvperf import Conversation, Traffic, TrafficMix
from pytest_nfvperf.adapters.evidence.reader import parse_line
from pytest_nfvperf.adapters.generators.checks import refuse_conversations
from pytest_nfvperf.adapters.generators.embedded.trial_results import trial_result
from pytest_nfvperf.adapters.generators.frames import streams, trial_request
from pytest_nfvperf.adapters.generators.packet_socket import check_countable
from pytest_nfvperf.measure.call_arguments import check_sendable
from pytest_nfvperf.model.display import in_connections
from pytest_nfvperf.model.errors import ArgumentError, ConfigError, UnavailableError
from pytest_nfvperf.model.evidence.records import make_record, trial_data
from pytest_nfvperf.model.measure.ledger import Ledger, ledger_text, with_classes
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.connections import connections, snat
from pytest_nfvperf.model.topology.parts import endpoint, path
from pytest_nfvperf.model.traffic.frame_program import frame_at
from pytest_nfvperf.model.traffic.mix import classes_of
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec, frames_by_direction, streams_of
from pytest_nfvperf.ports.generator import GeneratorPort

FORWARD, BACK = Direction("p0", "p1"), Direction("p1", "p0")
MACS = {"p0": "02:00:00:00:00:01", "p1": "02:00:00:00:00:02"}
PORTS = {name: GeneratorPort(name, "x", mac) for name, mac in MACS.items()}
SIGNATURE = bytes(range(1, 15))
IPV6 = {"client_ip": "2001:2::1", "server_ip": "2001:2:0:8000::1"}
CLOSES = {True: ("fin", "rst", "none"), False: ("fin", "none")}


def frames(traffic: Traffic, connection: int = 0) -> dict[str, Any]:
    """A connection's frames, as scapy reads them, by step."""
    conversation = traffic.packet
    made = {}
    for number, step in enumerate(conversation.steps):
        macs = [MACS["p0"], MACS["p1"]][:: -1 if step.from_server else 1]
        made[step.name] = Ether(frame_at(conversation.step_program(number, *macs), connection, SIGNATURE))
    return made


def check_bytes(frame: Any, size: int) -> None:
    """Lengths and checksums are those that scapy computes."""
    assert len(frame) + 4 == size
    again = frame.copy()
    for layer in again.iterpayloads():
        for name in ("chksum", "cksum", "len", "plen", "dataofs"):
            if name in layer.fields:
                del layer.fields[name]
    assert bytes(again) == bytes(frame)


@pytest.mark.parametrize("vlan", [None, 42])
@pytest.mark.parametrize("ends", [{}, IPV6], ids=["4", "6"])
@pytest.mark.parametrize(
    ("sizes", "close"),
    [(sizes, close) for sizes in ((64, 3000), (0, 0), (1, 1)) for close in CLOSES[bool(sizes[0])]],
)
def test_scapy_reads_a_connection(sizes: tuple[int, int], close: Any, ends: dict[str, str], vlan: int | None) -> None:
    request, response = sizes
    traffic = Conversation.tcp(request=request, response=response, close=close, vlan=vlan, clients=3, **ends)
    received = {True: 0, False: 0}  # bytes by who sent them, as TCP counts
    for name, frame in frames(traffic, 64512 + 7).items():
        step = next(each for each in traffic.packet.steps if each.name == name)
        tcp = frame[TCP]
        check_bytes(frame, traffic.packet.frame_size(step))
        assert (Dot1Q in frame) == (vlan is not None)
        assert tcp.options == [(253, SIGNATURE)]
        client, server = (tcp.dport, tcp.sport) if step.from_server else (tcp.sport, tcp.dport)
        assert (client, server) == (1024 + 7, 80)
        ip = frame[IPv6] if ends else frame[IP]
        assert (ip.dst if step.from_server else ip.src) == ("2001:2::2" if ends else "198.18.0.2")
        first = (64512 + 7) << 12
        assert tcp.seq == (first + received[step.from_server]) % (1 << 32)
        other = received[not step.from_server]
        assert tcp.ack == ((first + other) % (1 << 32) if name != "syn" else 0)
        if name != "ack" or not request:
            received[step.from_server] += len(tcp.payload) + ("S" in tcp.flags) + ("F" in tcp.flags)
    names = [step.name for step in traffic.packet.steps]
    assert names[:3] == ["syn", "syn-ack", "ack"]
    assert names[-1] == {"fin": "last-ack", "rst": "rst", "none": "response-ack" if request else "ack"}[close]
    if sizes == (64, 3000):
        assert received[True] == 3000 + 1 + (close == "fin")
        assert [step.payload for step in traffic.packet.steps if step.name.startswith("response")][:3] == [
            1400,
            1400,
            200,
        ]


@pytest.mark.parametrize("server", ["198.19.0.1", "2001:2:0:8000::1"])
def test_scapy_reads_datagrams_and_echoes(server: str) -> None:
    client = "198.18.0.1" if "." in server else "2001:2::1"
    ends = {"client_ip": client, "server_ip": server}
    asked, answered = frames(Conversation.udp(response=100, **ends), 5).values()
    for frame in (asked, answered):
        check_bytes(frame, len(frame) + 4)
    assert (asked[UDP].sport, asked[UDP].dport, len(asked[UDP].payload)) == (1029, 53, 64)
    assert (answered[UDP].sport, answered[UDP].dport, len(answered[UDP].payload)) == (53, 1029, 100)
    assert bytes(asked[UDP].payload)[:14] == SIGNATURE
    asked, answered = frames(Conversation.icmp(**ends), 5).values()
    for frame in (asked, answered):
        check_bytes(frame, len(frame) + 4)
        assert (frame[IP] if "." in server else frame[IPv6]).src == (client if frame is asked else server)
    kinds = (ICMP, ICMP) if "." in server else (ICMPv6EchoRequest, ICMPv6EchoReply)
    assert asked[kinds[0]].id == answered[kinds[1]].id == 1029
    assert (asked[kinds[0]].type, answered[kinds[1]].type) == ((8, 0) if "." in server else (128, 129))


@given(st.integers(0, 1 << 33), st.integers(1, 5), st.integers(1, 300), st.integers(1, 5000))
def test_no_tuple_comes_again_with_the_same_number(connection: int, clients: int, ports: int, size: int) -> None:
    """Property: a later connection of a tuple has another first number, as long as there are such numbers."""
    traffic = Conversation.tcp(request=1, response=size, clients=clients, ports=range(2000, 2000 + ports))
    program = traffic.packet.step_program(0, *MACS.values())
    fields = {field.name: field.value(connection % program.combinations) for field in program.fields}
    number = connection % (clients * ports)
    assert fields.get("TCP.sport", 2000) == 2000 + number % ports
    assert fields.get("IP.src", 0xC6120001) == 0xC6120001 + number // ports
    bits = (fields["TCP.seq"] ^ (fields["TCP.seq"] - 1)).bit_length() - 1 if fields["TCP.seq"] else 32
    assert 2**bits > size + 3
    assert traffic.combinations == clients * ports


@pytest.mark.parametrize("nat", [None, "source", "destination", "both"])
def test_answers_take_addresses_and_ports_from_what_arrived(nat: Any) -> None:
    """A NAT changes frames to the server; those to the client come back with the addresses that it knows."""
    spec = TrialSpec(Conversation.tcp(nat=nat), 1000, 1.0, (FORWARD,))
    sent = trial_request(spec, PORTS)["streams"]
    assert [row.get("answers") for row in sent] == [None, [0], [1], [1], [2, 3], [4], [5], [6]]
    assert [row["tx"] for row in sent] == ["p1" if step.from_server else "p0" for step in spec.traffic.packet.steps]
    assert [("fps" in row, "queue_depth" in row) for row in sent] == [(True, True)] + 7 * [(False, False)]
    for row, step in zip(sent, spec.traffic.packet.steps, strict=True):
        (signature,) = row["signatures"]
        taken = {field["offset"]: signature + field["from"] for field in row["fields"] if "from" in field}
        assert taken == ({26: 30, 30: 26, 34: 36, 36: 34} if step.answers else {})
        changes = {None: set(), "source": {26, 34, 50}, "destination": {30, 36, 50}, "both": {26, 30, 34, 36, 50}}[nat]
        assert {at for at, _ in row["changeable"]} == {15, 22, 24} | (set() if step.from_server else changes)


def test_held_connections_fail_where_they_open_or_close() -> None:
    """Steps: of 1000 held connections 10 fail to open, 3 closings fail. Verify: 13 failed."""
    spec = TrialSpec(Conversation.tcp(hold_s=2), 1000, 1.0, (FORWARD,))
    closing = trial_request(spec, PORTS)["streams"][5]
    assert [closing[key] for key in ("after", "start_ns", "fps", "frames")] == [4, 2_000_000_000, 1000, 1000]
    assert not any("from" in field for field in closing["fields"])
    rows = [row(1000, 990), *[row(990, 990)] * 4, row(990, 987), row(987, 987)]
    rows.append(row(987, 987, highest_seq=1000))
    result = trial_result(spec, answered(rows), PORTS, dict.fromkeys(PORTS, True))
    (count,) = result.counts
    assert (count.intended, count.sent, count.skipped, count.lost) == (1000, 1000, 0, 13)
    assert {step.name: step.failed for step in count.steps if step.failed} == {"syn": 10, "fin": 3}
    assert result.valid  # no more came than were sent


def test_learning_is_forward_and_classes_go_beside() -> None:
    mix = TrafficMix(
        web=(Conversation.tcp(request=0, response=0, close="none"), "10 kconn/s"), bulk=(Traffic(), "100 %")
    )
    assert [each.load_text for each in classes_of(mix)] == ["10.0 kconn/s", "100 %"]
    learnt = streams(streams_of(mix, (FORWARD, BACK), 1000, 10, learning=True), (FORWARD, BACK), PORTS)
    assert [(row["tx"], row.get("answers")) for row in learnt] == [
        ("p0", None),
        ("p1", [0]),
        ("p0", [1]),
        ("p0", None),
        ("p1", None),
    ]


def row(sent: int, received: int, due: int | None = None, **more: Any) -> dict[str, Any]:
    counts = {"intended": sent if due is None else due, "sent": sent, "received": received, "highest_seq": received}
    zeros = ("refused", "skipped", "fell_behind", "duplicated", "out_of_order", "corrupted", "beyond_window")
    bytes_ = {"sent_bytes": 74 * sent, "received_bytes": 74 * received}
    lateness = {"longest_lateness_ns": 5, "largest_burst": 1, "elapsed_ns": 10**9}
    return dict.fromkeys(zeros, 0) | counts | bytes_ | lateness | {"misdirected": {}} | more


def answered(rows: list[dict[str, Any]]) -> dict[str, Any]:
    worker = {"longest_poll_gap_ns": 1, "preemptions": 0, "run_delay_ns": 0, "elapsed_ns": 10**9, "busy_ns": 1}
    ports = {name: {"foreign": {}} for name in PORTS}
    return {"streams": rows, "ports": ports, "workers": [worker], "started_ns": 1, "given_up": False}


def test_each_failed_connection_is_counted_at_one_step() -> None:
    """Steps: 3 SYN, 2 requests and 1 ACK, 4 last frames are lost, 1 answer is refused. Verify: 11 failed, each once."""
    spec = TrialSpec(Conversation.tcp(), 1000, 1.0, (FORWARD,))
    rows = [
        row(1000, 997),
        row(996, 996, 997, refused=1),
        row(996, 995),
        row(996, 994),
        row(993, 993),
        row(993, 993, duplicated=2),
        row(993, 993, corrupted=1),
        row(993, 989, longest_lateness_ns=0, latency={"min_ns": 9, "max_ns": 9, "digits": 3, "counts": [[9, 989]]}),
    ]
    result = trial_result(spec, answered(rows), PORTS, dict.fromkeys(PORTS, True))
    (count,) = result.counts
    assert (count.sent, count.received, count.lost, count.duplicated, count.corrupted) == (1000, 989, 11, 2, 1)
    assert {step.name: step.failed for step in count.steps if step.failed} == {
        "syn": 3,
        "syn-ack": 1,
        "ack": 1,
        "request": 2,
        "last-ack": 4,
    }
    assert sum(step.failed for step in count.steps) == count.lost
    assert count.latency is not None
    assert count.latency.max_ns == 9
    assert result.health.longest_lateness_ns == 5
    line = json.dumps(
        make_record(
            trial_data(result, wall_s=1.0, encode=None), id="trial-0001", run="r", test="t", time_ns=1
        ).to_json()
    )
    read = parse_line(line).data.result
    assert read.counts[0].steps == count.steps
    assert (read.spec.load_text, read.spec.traffic.packet.steps[:2]) == ("1.00 kconn/s", ("syn", "syn-ack"))
    there, back = frames_by_direction(result.counts)
    assert (there.direction, there.sent, there.lost) == (FORWARD, 1000 + 996 + 996 + 993 + 993, 3 + 1 + 2 + 4)
    assert (back.direction, back.sent, back.refused, back.lost) == (BACK, 996 + 993 + 993, 1, 1)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: Conversation.tcp(request=0), "request and response above 0, or both 0"),
        (lambda: Conversation.tcp(request=0, response=0, close="rst"), "close='rst' answers a response"),
        (lambda: Conversation.tcp(request=1500), "a request of 1500 bytes is not one frame: mss is 1400"),
        (lambda: Conversation.tcp(response=50_000), "at most 32 can be: use a shorter response, or a larger mss"),
        (lambda: Conversation.tcp(clients=70_000), "clients is 70000: write a whole number from 1 to 65536"),
        (lambda: Conversation.tcp(ports=range(1, 10, 2)), "ports is range(1, 10, 2): write a range of numbers"),
        (lambda: Conversation.tcp(client_ip="2001:2::1"), "client_ip 2001:2::1 is IPv6, and server_ip 198.19.0.1 is"),
        (lambda: Conversation.tcp(clients=9, server_ip="198.18.0.9"), "198.18.0.9 is a client's address, too"),
        (lambda: Conversation.tcp(closed="fin"), "Conversation.tcp() has no argument 'closed'"),
        (lambda: Conversation.tcp(nat="snat"), "nat is 'snat': write one of"),
        (lambda: Conversation.tcp(close="none", hold_s=1), "close='none' leaves connections open: leave hold_s out"),
        (lambda: Conversation.tcp(response=2000, hold_s=1), "of a held connection the response is one frame"),
        (lambda: Conversation.udp(request=10), "Conversation.udp(): request is 10: write a whole number from 18"),
        (lambda: Conversation.icmp(server_port=7), "an echo has no ports: leave server_port out"),
        (lambda: Traffic(packet=Conversation.udp().packet), "a conversation has both directions itself"),
        (lambda: Traffic(packet=Conversation.udp().packet, bidirectional=False, together=False), "together is for a"),
        (
            lambda: TrafficMix(web=(Conversation.tcp(), "100 %", "both")),
            "web is a conversation, which is sent 'forward'",
        ),
    ],
)
def test_wrong_arguments_say_what_to_write(made: Any, expected: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        made()
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("traffic", "ports", "expected"),
    [
        (Conversation.tcp(nat="source"), (), None),
        (Conversation.tcp(), (443,), None),
        (Traffic(), (), None),
        (Conversation.tcp(), (), "translate what tcp-conversation expects as it was sent: give it nat='source'"),
        (Conversation.tcp(nat="destination"), (), "give it nat='both'"),
        (Conversation.tcp(nat="source", **IPV6), (), "leave IPv6 alone, which ipv6-tcp-conversation is: write"),
    ],
)
def test_a_conversation_that_is_not_translated_as_it_says_is_refused(
    traffic: Traffic, ports: tuple[int, ...], expected: str | None
) -> None:
    """Otherwise all of it fails, or what was measured is no NAT."""
    nat = connections("br0", client="p0", server="p1", nat=snat("198.51.100.1"), server_ports=ports)
    topology = compose("nat", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"), nat)
    with pytest.raises(ArgumentError) if expected else nullcontext() as refused:
        check_sendable("search.loss_at", topology, traffic)
    if refused is not None:
        text = str(refused.value)
        assert text.startswith("search.loss_at(): connections from p0 to p1, zone 1: nat(src=198.51.100.1) ")
        assert expected in text


def test_a_dut_that_sends_frames_back_has_no_conversation() -> None:
    spec = TrialSpec(Conversation.udp(), 1000, 1.0, (FORWARD,), come_back="swapped")
    with pytest.raises(ConfigError, match="a conversation needs one that forwards"):
        trial_request(spec, PORTS)


@pytest.mark.parametrize("engine", ["TRex", "the engine of virtual time"])
def test_other_engines_refuse_a_conversation_by_itself_or_in_a_mix(engine: str) -> None:
    mix = TrafficMix(web=(Conversation.tcp(), "1 kpps"), bulk=(Traffic(), 1.0))
    refuse_conversations(Traffic(), engine)
    for traffic in (Conversation.icmp(), mix):
        with pytest.raises(UnavailableError, match=f"{engine} answers no frames, .*: use the embedded engine"):
            refuse_conversations(traffic, engine)
    with pytest.raises(UnavailableError, match="virtual time answers no frames"):
        check_countable(mix)


def test_a_ledger_says_where_connections_failed() -> None:
    spec = TrialSpec(Conversation.udp(), 1000, 1.0, (FORWARD,))
    result = trial_result(spec, answered([row(1000, 1000), row(1000, 998)]), PORTS, dict.fromkeys(PORTS, True))
    ledger = with_classes(Ledger(2000, 1998, (), 2), result)
    assert ledger_text(ledger).endswith("note: 2 of 1,000 connections failed at response")


def test_texts_of_connections_leave_other_words_alone() -> None:
    text = "0 lost of 20,000 frames at 86.3 kpps, of 4 Mpps and 10 pps; frames of others"
    assert in_connections(text) == (
        "0 lost of 20,000 connections at 86.3 kconn/s, of 4 Mconn/s and 10 conn/s; frames of others"
    )


def test_a_conversation_is_shown_by_its_steps() -> None:
    traffic = Conversation.udp(vlan=7)
    assert (traffic.frame_label, traffic.headers_label) == ("own", "vlan-udp-conversation")
    assert traffic.headers_name == "Ether / Dot1Q / IP / UDP conversation of request, response"
    assert traffic.vlans == (7,)
    assert [each.traffic for each in classes_of(traffic)] == [traffic]
    # 532 + 4 + 42 + 4 bytes and 20 on the wire are the busier direction's
    assert traffic.line_rate_fps(1e9) == pytest.approx(1e9 / 8 / (14 + 4 + 20 + 8 + 512 + 4 + 20))
