"""STL profiles as traffic: profiles written here, modelled on three of TRex's own, and frames that scapy parses."""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from unittest.mock import patch

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.utils import wrpcap

from pytest_nfvperf import Traffic
from pytest_nfvperf.features.trex import profiles, stl_library
from pytest_nfvperf.features.trex.profiles import ProfileError, ProfileStream, converted
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.traffic.frame_program import frame_at
from pytest_nfvperf.model.traffic.mix import TrafficMix

RANGE_OF_CLIENTS = """
    from trex_stl_lib.api import *
    import argparse

    class Clients:
        def get_streams(self, tunables, **kwargs):
            parser = argparse.ArgumentParser()
            parser.add_argument("--clients", type=int, default=30000)
            args = parser.parse_args(tunables)
            base = Ether(src="00:00:dd:dd:00:01") / IP(src="55.55.1.1", dst="58.0.0.1") / UDP(dport=12, sport=1025)
            vm = STLScVmRaw(
                [
                    STLVmFlowVar(name="client", min_value=1, max_value=args.clients, size=2, op="inc"),
                    STLVmWrFlowVar(fv_name="client", pkt_offset=10),
                    STLVmWrFlowVar(fv_name="client", pkt_offset="IP.src", offset_fixup=2),
                    STLVmFixIpv4(offset="IP"),
                ]
            )
            pad = max(0, 60 - len(base)) * "x"
            return [STLStream(packet=STLPktBuilder(pkt=base / pad, vm=vm), mode=STLTXCont(pps=10))]

    def register():
        return Clients()
"""

IMIX = """
    from trex_stl_lib.api import *

    class Mixed:
        sizes = ((60, 28), (590, 16), (1514, 4))

        def stream(self, size, pps, number, vm):
            base = Ether() / IP() / UDP()
            builder = STLPktBuilder(pkt=base / (max(0, size - len(base)) * "x"), vm=vm)
            return STLStream(isg=number / 10, packet=builder, mode=STLTXCont(pps=pps))

        def get_streams(self, direction, tunables, **kwargs):
            first, second = ("16.0.0.{}", "48.0.0.{}") if direction == 0 else ("48.0.0.{}", "16.0.0.{}")
            vm = STLVM()
            vm.var(name="src", min_value=first.format(1), max_value=first.format(254), size=4, op="inc")
            vm.var(name="dst", min_value=second.format(1), max_value=second.format(254), size=4, op="inc")
            vm.write(fv_name="src", pkt_offset="IP.src")
            vm.write(fv_name="dst", pkt_offset="IP.dst")
            vm.fix_chksum()
            return [self.stream(size, pps, number, vm) for number, (size, pps) in enumerate(self.sizes)]

    def register():
        return Mixed()
"""

SYN_ATTACK = """
    from trex.stl.api import *

    class Syn:
        def get_streams(self, tunables, **kwargs):
            vm = STLVM()
            vm.var(name="client", min_value="16.0.0.0", max_value="18.0.0.254", size=4, op="random")
            vm.var(name="port", min_value=1025, max_value=65000, size=2, op="random")
            vm.write(fv_name="client", pkt_offset="IP.src")
            vm.fix_chksum()
            vm.write(fv_name="port", pkt_offset="TCP.sport")
            packet = STLPktBuilder(pkt=Ether() / IP(dst="48.0.0.1") / TCP(dport=80, flags="S"), vm=vm)
            return [STLStream(packet=packet, random_seed=0x1234, mode=STLTXCont())]

    def register():
        return Syn()
"""

ONE_STREAM = """
    from trex.stl.api import *

    class One:
        def get_streams(self, direction=0, **kwargs):
            base = {packet}
            return [STLStream({name}packet=STLPktBuilder(pkt=base / ("x" * 30), vm=STLScVmRaw([{vm}])), {more})]

    def register():
        return One()
"""


SEVERAL = """
    from trex.stl.api import *

    class Several:
        def get_streams(self, **kwargs):
            return [{}]

    def register():
        return Several()
"""


@pytest.fixture
def profile(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "profile.py"
        path.write_text(textwrap.dedent(text).lstrip())
        return path

    return write


@pytest.fixture
def one_stream(profile: Callable[[str], Path]) -> Callable[..., Path]:
    def write(vm: str = "", more: str = "mode=STLTXCont(pps=1)", packet: str = "", name: str = "") -> Path:
        base = packet or 'Ether() / IP(src="16.0.0.1", dst="48.0.0.1") / UDP(sport=1025, dport=12)'
        return profile(ONE_STREAM.format(packet=base, vm=vm, more=more, name=name))

    return write


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles run in this process, whose imports are put back: a process of their own spends a second on scapy's."""

    def answer(command: Sequence[str], *, deadline_s: float, stdin: str) -> str:
        assert command[1:] == ["-m", profiles.__name__]
        with TemporaryFile("w+") as answers, monkeypatch.context() as changed:
            changed.setattr(sys, "stdin", io.StringIO(stdin))
            changed.setattr(sys, "argv", [])
            changed.setattr(sys, "path", sys.path.copy())
            stdout = os.dup(1)
            try:
                os.dup2(answers.fileno(), 1)
                with patch.dict(sys.modules):
                    profiles.main()
            finally:
                os.dup2(stdout, 1)
                os.close(stdout)
            answers.seek(0)
            return answers.read()

    monkeypatch.setattr(profiles, "run", answer)


def frames(traffic: Traffic, count: int, step: int = 1) -> list[Any]:
    source = traffic.frame_source
    assert source is not None
    assert isinstance(traffic.frame_size, int)
    macs = {"source_mac": "02:00:00:00:00:11", "destination_mac": "02:00:00:00:00:22"}
    program = source.program((traffic.frame_size,), (0,), **macs, reverse=False)
    sent = [frame_at(program, number, bytes(14)) for number in range(0, count, step)]
    for frame in sent:
        again = Ether(frame)
        for layer in (IP, UDP, TCP):
            if layer in again:
                del again[layer].chksum
        assert bytes(again) == frame  # every checksum is what scapy computes
    return [Ether(frame) for frame in sent]


def built(vm: str = "", more: str = "", packet: str = "") -> ProfileStream:
    """A stream as the child process describes it, made in this one."""
    packet = packet or 'Ether() / IP(src="16.0.0.1", dst="48.0.0.1") / UDP(sport=1025, dport=12)'
    builder = f"STLPktBuilder(pkt={packet} / ('x' * 30), vm=STLScVmRaw([{vm}]))"
    stream = eval(f"STLStream(packet={builder}, {more})", dict(vars(stl_library.library())))
    return ProfileStream(**converted(stream, 1))


def not_convertible(**given: str) -> str:
    with pytest.raises(ProfileError) as caught:
        built(**given)
    return str(caught.value)


def refusal(path: Path, **given: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Traffic.from_trex(path, **given)
    assert caught.value.file == str(path)
    return caught.value


def test_a_range_of_clients_counts_in_two_fields_at_once(profile: Any):
    traffic = Traffic.from_trex(profile(RANGE_OF_CLIENTS))

    assert traffic.frame_size == 64
    assert traffic.combinations == 30_000
    assert [(each.src, each[IP].src) for each in frames(traffic, 30_001, 10_000)] == [
        ("00:00:dd:dd:00:01", "55.55.0.1"),
        ("00:00:dd:dd:27:11", "55.55.39.17"),
        ("00:00:dd:dd:4e:21", "55.55.78.33"),
        ("00:00:dd:dd:00:01", "55.55.0.1"),
    ]


@pytest.mark.usefixtures("in_process")
def test_tunables_are_options_of_the_profile(profile: Any):
    path = profile(RANGE_OF_CLIENTS)

    assert Traffic.from_trex(path, {"clients": 7}).combinations == 7
    assert refusal(path, tunables={"hosts": 7}).message == (
        "does not take the tunables {'hosts': 7}: unrecognized arguments: --hosts 7"
    )


@pytest.mark.parametrize("direction", [0, 1])
def test_an_imix_of_streams_is_a_mix_whose_shares_are_their_rates(profile: Any, direction: int):
    mix = Traffic.from_trex(profile(IMIX), direction=direction)

    assert isinstance(mix, TrafficMix)
    assert [(each.name, each.traffic.frame_size, round(each.share * 48)) for each in mix.classes] == [
        ("stream1", 64, 28),
        ("stream2", 594, 16),
        ("stream3", 1518, 4),
    ]
    src, dst = ("16.0.0.2", "48.0.0.2") if direction == 0 else ("48.0.0.2", "16.0.0.2")
    assert [(each[IP].src, each[IP].dst) for each in frames(mix.classes[1].traffic, 255)[1::254]] == [
        (src, dst)
    ]  # both addresses change with every frame


@pytest.mark.usefixtures("in_process")
def test_a_syn_flood_needs_room_for_the_signature(profile: Any):
    path = profile(SYN_ATTACK)

    assert refusal(path).message == (
        "stream 'stream1': Ether / IP / TCP needs at least 72 bytes (with FCS), and the traffic has frames of 64: "
        "headers 54, signature 14, FCS 4; give another frame_size for all streams"
    )
    sent = frames(Traffic.from_trex(path, frame_size=72), 500)
    assert {(each[IP].dst, each[TCP].dport, str(each[TCP].flags)) for each in sent} == {("48.0.0.1", 80, "S")}
    assert len({each[IP].src for each in sent}) == 500
    assert len({each[TCP].sport for each in sent}) == 500
    assert all(each[IP].src.split(".")[0] in {"16", "17", "18"} for each in sent)


@pytest.mark.usefixtures("in_process")
def test_rates_in_bits_are_shares_of_frames(profile: Any):
    given = ((1458, "bps_L2=1500e6"), (20, "bps_L1=88e6"), (458, "pps=125000"))
    packet = "STLPktBuilder(pkt=Ether() / IP() / UDP() / ('x' * {}))"
    streams = [f"STLStream(packet={packet.format(size)}, mode=STLTXCont({rate}))" for size, rate in given]
    mix = Traffic.from_trex(profile(SEVERAL.format(", ".join(streams))))

    # 1504 bytes: 1500e6 / 12032 frames/s; 66 bytes and 20 on the wire: 88e6 / 688
    rates = [1500e6 / (1504 * 8), 88e6 / ((66 + 20) * 8), 125000]
    assert [each.share for each in mix.classes] == pytest.approx([rate / sum(rates) for rate in rates])


@pytest.mark.usefixtures("in_process")
def test_percent_of_a_link_cannot_be_mixed_with_other_rates(profile: Any):
    made = "STLStream(mode=STLTXCont(percentage=10)), STLStream(mode=STLTXCont(pps=10))"

    assert refusal(profile(SEVERAL.format(made))).message == (
        "gives rates in percent of a link and in others: their ratio depends on the link"
    )


VARIABLES = {
    "down": (
        'STLVmFlowVar("v", min_value=10, max_value=20, size=1, step=5, op="dec"), STLVmWrFlowVar("v", "IP.tos")',
        lambda each: each[IP].tos,
        [20, 15, 10, 20],
    ),
    "with an addition": (
        'STLVmFlowVar("v", min_value=0, max_value=3, size=2), STLVmWrFlowVar("v", "UDP.sport", add_val=5000)',
        lambda each: each[UDP].sport,
        [5000, 5001, 5002, 5003, 5000],
    ),
    "in the middle of a field": (
        'STLVmFlowVar("v", min_value=7, max_value=9, size=1), STLVmWrFlowVar("v", 27)',
        lambda each: each[IP].src,
        ["16.7.0.1", "16.8.0.1", "16.9.0.1", "16.7.0.1"],
    ),
    "lowest byte first": (
        'STLVmFlowVar("v", min_value=1, max_value=2, size=2), STLVmWrFlowVar("v", "IP.src", 2, is_big=False)',
        lambda each: each[IP].src,
        ["16.0.1.1", "16.0.2.1", "16.0.1.1"],
    ),
    "masked": (
        'STLVmFlowVar("v", min_value=1, max_value=3, size=2), STLVmWrMaskFlowVar("v", 10, 2, 0xFF00, 8)',
        lambda each: each.src,
        ["02:00:00:00:01:00", "02:00:00:00:02:00", "02:00:00:00:03:00"],
    ),
    "a list that is a range": (
        'STLVmFlowVar("v", value_list=["10.0.0.4", "10.0.0.6", "10.0.0.8"]), STLVmWrFlowVar("v", "IP.dst")',
        lambda each: each[IP].dst,
        ["10.0.0.4", "10.0.0.6", "10.0.0.8", "10.0.0.4"],
    ),
    "tuples": (
        """STLVmTupleGen("t", "16.0.0.1", "16.0.0.2", 1025, 1026),
        STLVmWrFlowVar("t.ip", "IP.src"), STLVmWrFlowVar("t.port", "UDP.sport")""",
        lambda each: (each[IP].src, each[UDP].sport),
        [("16.0.0.1", 1025), ("16.0.0.2", 1025), ("16.0.0.1", 1026), ("16.0.0.2", 1026), ("16.0.0.1", 1025)],
    ),
    "one after the other": (
        """STLVmFlowVar("a", min_value=1, max_value=2, size=1, next_var="b"),
        STLVmFlowVar("b", min_value=5, max_value=6, size=1),
        STLVmWrFlowVar("b", "IP.ttl"), STLVmWrFlowVar("a", "IP.tos")""",
        lambda each: (each[IP].tos, each[IP].ttl),
        [(1, 5), (2, 5), (1, 6), (2, 6), (1, 5)],
    ),
    "a range of addresses": (
        '*STLIPRange(src={"start": "16.0.0.1", "end": "16.0.0.9", "step": 4})',
        lambda each: each[IP].src,
        ["16.0.0.1", "16.0.0.5", "16.0.0.9", "16.0.0.1"],
    ),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_are_sent_as_trex_writes_them(name: str):
    vm, field, expected = VARIABLES[name]
    traffic = built(vm).traffic((), None)

    assert [field(each) for each in frames(traffic, len(expected))] == expected


def test_a_tag_is_found_by_scapys_name_and_by_its_title():
    packet = "Ether() / Dot1Q(vlan=11, prio=5) / IP() / UDP()"
    variable = 'STLVmFlowVar("v", min_value=100, max_value=102, size=2)'
    for name in ("Dot1Q.prio", "802|1Q.prio", "Dot1Q:0.vlan"):
        vm = f'{variable}, STLVmWrMaskFlowVar("v", "{name}", 2, 0x0FFF)'
        sent = frames(built(vm, packet=packet).traffic((), None), 3)
        assert [(each[Dot1Q].vlan, each[Dot1Q].prio) for each in sent] == [(100, 5), (101, 5), (102, 5)]


def test_an_inner_layer_is_found_by_its_number():
    vm = 'STLVmFlowVar("v", min_value="10.0.0.1", max_value="10.0.0.3"), STLVmWrFlowVar("v", "IP:1.src")'
    traffic = built(vm, packet='Ether() / IP() / IP(src="1.2.3.4") / UDP()').traffic((), None)

    assert [each[IP:2].src for each in frames(traffic, 2)] == ["10.0.0.1", "10.0.0.2"]


def test_a_layer_of_scapys_contributions(one_stream: Any):
    packet = '__import__("scapy.contrib.mpls").contrib.mpls.MPLS(label=17, s=1)'
    traffic = Traffic.from_trex(one_stream(packet=f"Ether() / {packet} / IP() / UDP()"))

    assert traffic.headers_name == "Ether / MPLS / IP / UDP"


@pytest.mark.usefixtures("in_process")
def test_a_packet_of_a_capture_and_of_bytes(profile: Any, tmp_path: Path):
    packet = Ether() / IP(dst="48.0.0.9") / UDP(dport=99) / (b"x" * 30)  # from port 53: scapy takes it for DNS
    wrpcap(str(tmp_path / "one.pcap"), packet)
    for source in (
        'pkt="one.pcap", path_relative_to_profile=True',
        f"pkt_buffer=bytes.fromhex('{bytes(packet).hex()}')",
    ):
        text = f"""
            from trex.stl.api import *
            class P:
                def get_streams(self, **kwargs):
                    return STLStream(packet=STLPktBuilder({source}))
            def register():
                return P()
        """
        traffic = Traffic.from_trex(profile(text))
        (sent,) = frames(traffic, 1)
        assert (traffic.frame_size, sent[IP].dst, sent[UDP].dport) == (76, "48.0.0.9", 99)


KEPT = "which cannot be kept: a traffic sends all of its streams at a constant rate"
NOT_CONVERTIBLE = {
    'mode=STLTXSingleBurst(pps=1, total_pkts=9), name="S0"': f"stream 'S0' sends a burst (STLTXSingleBurst), {KEPT}",
    "mode=STLTXMultiBurst(pkts_per_burst=4, count=5)": f"stream 'stream1' sends bursts (STLTXMultiBurst), {KEPT}",
    "self_start=False": f"stream 'stream1' starts after another stream (self_start=False), {KEPT}",
    'next="S1"': f"stream 'stream1' is followed by another one (next='S1'), {KEPT}",
    "dummy_stream=True": f"stream 'stream1' sends nothing (dummy_stream), {KEPT}",
    "flow_stats=STLFlowLatencyStats(pg_id=7)": (
        f"stream 'stream1' has its own rate to sample latency (STLFlowLatencyStats), {KEPT}"
    ),
    "flow_stats=STLTaggedPktGroup(tpgid=7)": (
        f"stream 'stream1' is of a tagged packet group (STLTaggedPktGroup), {KEPT}"
    ),
}


@pytest.mark.parametrize("more", NOT_CONVERTIBLE)
def test_what_a_stream_does_and_a_traffic_cannot_is_named(more: str):
    assert not_convertible(more=more) == NOT_CONVERTIBLE[more]


@pytest.mark.usefixtures("in_process")
def test_what_cannot_be_kept_is_told_with_the_file(one_stream: Any):
    more = "next='S1'"
    assert refusal(one_stream(more=more)).message == f"stream 'stream1' is followed by another one ({more}), {KEPT}"


@pytest.mark.usefixtures("in_process")
def test_flow_statistics_are_kept_and_a_disabled_stream_is_left_out(one_stream: Any):
    assert isinstance(Traffic.from_trex(one_stream(more="flow_stats=STLFlowStats(pg_id=7)")), Traffic)
    assert refusal(one_stream(more="enabled=False")).message == "gives no stream for direction 0"


COMMANDS_NOT_CONVERTIBLE = {
    'STLVmFlowVar("v", size=2), STLVmTrimPktSize("v")': (
        "varies its size with 'v' (STLVmTrimPktSize): give an IMIX instead"
    ),
    'STLVmFlowVarRepeatableRandom("v", limit=9)': (
        "has a repeatable random variable 'v': write STLVmFlowVar(op='random'), which repeats nothing here"
    ),
    'STLVmFlowVar("v", init_value=7)': "has a variable 'v' that begins at 7: leave init_value out",
    'STLVmFlowVar("v", value_list=[9, 0, 4])': "has a value_list in 'v' that is no range, such as 1, 3, 5",
    'STLVmWrFlowVar("w", "IP.src")': "writes 'w', a variable that it does not have",
    'STLVmFlowVar("v"), STLVmWrFlowVar("v", "TCP.sport")': (
        "writes to 'TCP.sport', and its packet has no such layer: Ether / IP / UDP 16.0.0.1:1025 > 48.0.0.1:12"
    ),
    'STLVmFlowVar("v"), STLVmWrFlowVar("v", "IP.source")': "writes to 'IP.source', and IP has no such field",
    'STLVmFlowVar("v"), STLVmWrFlowVar("v", 50)': "writes 'v' behind its headers, into the payload",
    'STLVmFlowVar("v", min_value=0, max_value=99999), STLVmWrFlowVar("v", 28)': ("writes 'v' across IP.src and IP.dst"),
    'STLVmFlowVar("v", size=1), STLVmWrFlowVar("v", "IP.tos", add_val=7)': (
        "writes 'v' into 8 bits, which its values do not fit"
    ),
    'STLVmFlowVar("v", size=1), STLVmWrMaskFlowVar("v", "IP.tos", 1, 0x0F)': (
        "masks bits of 'v' that differ (mask=0xf), which cannot be kept"
    ),
    'STLVmFlowVar("v", size=1), STLVmWrMaskFlowVar("v", "IP.tos", 1, 0xFF, -1)': (
        "shifts 'v' to the right, so that it keeps its value for several frames"
    ),
    'STLVmFlowVar("v", max_value=999), STLVmWrFlowVar("v", "IP.src", is_big=False)': (
        "writes 'v' lowest byte first, and more than that byte differs or is set"
    ),
    'STLVmFlowVar("v", op="random"), STLVmWrFlowVar("v", "IP.src"), STLVmWrFlowVar("v", "IP.dst")': (
        "writes the random variable 'v' twice, and here the two would differ"
    ),
    'STLVmTupleGen("t", "16.0.0.1", "16.0.0.3", limit_flows=100)': (
        "limits 3 addresses of 't' (STLVmTupleGen) to 100 flows: write limit_flows=99, a multiple"
    ),
    'STLVmTupleGen("t"), STLVmFlowVar("v", size=1), STLVmWrFlowVar("t.ip", "IP.src"), STLVmWrFlowVar("v", "IP.tos")': (
        "counts some variables jointly, and others by themselves or twice, which cannot be kept"
    ),
}


@pytest.mark.parametrize("vm", COMMANDS_NOT_CONVERTIBLE)
def test_commands_that_cannot_be_kept_are_named(vm: str):
    assert not_convertible(vm=vm) == f"stream 'stream1' {COMMANDS_NOT_CONVERTIBLE[vm]}"


MISTAKES = {
    "import nothing_of_this_name\n": (
        "imports nothing_of_this_name, which is not there: install it, or put it beside the profile",
        1,
    ),
    "import os\nfrom trex.astf.api import *\n": (
        "imports trex.astf, of which only trex_stl_lib.api and trex.stl.api is known here: streams of STLStream",
        2,
    ),
    "from trex.stl.api import STLHltStream\n": (
        "imports STLHltStream, which is not known here",
        1,
    ),
    "from trex.stl.api import *\n\nx = STLHltStream()\n": (
        "uses STLHltStream, which is not known here",
        3,
    ),
    "from trex.stl.api import *\n": (
        "has no register(), which gives TRex the object whose get_streams() makes the streams",
        None,
    ),
    "def register():\n    raise ValueError('no more')\n": ("raises ValueError: no more", 2),
    "def register(:\n": ("is no Python: invalid syntax", 1),
    "import sys\nsys.exit(3)\n": ("raises SystemExit: 3", 2),
    "from trex.stl.api import *\nSTLTXCont(pps=1, percentage=2)\n": ("gives a rate twice, as pps and percentage", 2),
    "from trex.stl.api import *\nSTLVmFlowVar('v', size=3)\n": (
        "gives variable 'v' size 3 and op 'inc': 1, 2, 4 or 8, and inc, dec or random are possible",
        2,
    ),
    "from trex.stl.api import *\nSTLProfile.load_pcap('x.pcap')\n": (
        "sends a capture (STLProfile.load_pcap): send that by Traffic.from_pcap() instead",
        2,
    ),
    "from trex.stl.api import *\nSTLStream(colour='blue')\n": (
        "raises TypeError: STLStream.__init__() got an unexpected keyword argument 'colour'",
        2,
    ),
    "class P:\n    def get_streams(self, **kwargs):\n        return [1]\ndef register():\n    return P()\n": (
        "get_streams() gives 1, which is no STLStream",
        None,
    ),
}


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("text", MISTAKES)
def test_a_profile_that_cannot_be_run_is_told_with_its_line(profile: Any, text: str):
    error = refusal(profile(text))

    assert (error.message, error.line) == MISTAKES[text]


def test_a_file_that_is_not_there(tmp_path: Path):
    assert refusal(tmp_path / "none.py").message == "is no file: name an STL profile of TRex, such as stl/imix.py"


@pytest.mark.usefixtures("in_process")
def test_nine_streams(profile: Any):
    path = profile(SEVERAL.format("STLStream(), " * 9))

    assert refusal(path).message == "has 9 streams, and at most 8 are sent at once"


def test_what_a_profile_prints_does_not_disturb(profile: Any):
    text = "print('hello')\n" + textwrap.dedent(RANGE_OF_CLIENTS).lstrip()

    assert Traffic.from_trex(profile(text)).combinations == 30_000


@pytest.mark.usefixtures("in_process")
def test_profiles_of_before_take_tunables_as_arguments(profile: Any):
    text = """
        from trex_stl_lib.api import *
        class Old:
            def get_streams(self, direction=0, ports=3, **kwargs):
                vm = [STLVmFlowVar("p", min_value=1, max_value=ports, size=2), STLVmWrFlowVar("p", "UDP.sport")]
                return [STLStream(packet=STLPktBuilder(pkt=Ether() / IP() / UDP() / ("x" * 30), vm=vm))]
        def register():
            return Old()
    """

    assert Traffic.from_trex(profile(text), {"ports": 5}).combinations == 5


def test_star_imports_give_scapy_and_a_few_modules():
    names = vars(stl_library.library())

    assert {"Ether", "IP", "IPv6", "Dot1Q", "os", "random", "STLStream", "STLVM"} <= {*names}
    assert names["Ether"] is Ether
