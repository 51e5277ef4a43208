"""perf's output as folded stacks, what a profile says of them, and the flame graph."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from pytest_nfvperf.features.profile.flame_graph import differential_flame_graph, flame_graph
from pytest_nfvperf.features.profile.perf import counts, stacks
from pytest_nfvperf.model.measure.cpu_profile import CpuProfile, folded

TEXT = """ovs-vswitchd
        ffffffff81a1b2c3 copy_user+0x12
        ffffffff81a1b2d4 packet_rcv
            55d0c0ffee00 netdev_linux_rxq_recv

iperf3
            7f0000000000 [unknown]

ovs-vswitchd
        ffffffff81a1b2c4 copy_user
        ffffffff81a1b2d4 packet_rcv
            55d0c0ffee00 netdev_linux_rxq_recv

odd;name

"""
PROFILE = CpuProfile("cpu-clock", (0, 1), folded(stacks(TEXT)))
SVG = "{http://www.w3.org/2000/svg}"


def test_stacks_begin_with_the_process_and_end_with_what_ran() -> None:
    assert PROFILE.folded == (
        (("iperf3", "[unknown]"), 1),
        (("odd:name", "[unknown]"), 1),
        (("ovs-vswitchd", "netdev_linux_rxq_recv", "packet_rcv", "copy_user"), 2),
    )
    assert PROFILE.samples == 4
    assert "ovs-vswitchd;netdev_linux_rxq_recv;packet_rcv;copy_user 2\n" in PROFILE.text()


def test_callers_without_a_name_are_one() -> None:
    frames = "".join(f"        {address:x} [unknown]\n" for address in range(0x7F00, 0x7F7F))
    text = f"python\n        ffff sock_recvmsg\n{frames}        55d0 main\n        55d1 main\n\n"
    assert list(stacks(text)) == [("python", "main", "main", "[unknown]", "sock_recvmsg")]


PACKAGED = """pmd-c01/id:8
                    335f rte_pktmbuf_free_bulk+0x1f (/usr/lib/x86_64-linux-gnu/librte_mbuf.so.23.0)
                   503b3 [unknown] (/usr/lib/x86_64-linux-gnu/librte_vhost.so.23.0)
                  1b3ffe [unknown] (/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk)
                   dd775 [unknown] (/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk)
                  1098eb clone3 (/usr/lib/x86_64-linux-gnu/libc.so.6)

pmd-c01/id:9
                   dd776 [unknown] (/tmp/ovs-vswitchd-dpdk (deleted))
        ffffffffffffffff [unknown] ([unknown])

"""


def test_a_function_without_a_name_is_its_binary_and_runs_of_one_work_have_equal_names() -> None:
    """Steps: what perf says of Debian's OVS, in two runs. Verify: no number of a thread, or of a library's version."""
    unwound, cut = stacks(PACKAGED)
    assert unwound == ("pmd-c01", "clone3", "[ovs-vswitchd-dpdk]", "[librte_vhost.so]", "rte_pktmbuf_free_bulk")
    assert cut == ("pmd-c01", "[unknown]", "[ovs-vswitchd-dpdk]")
    assert CpuProfile("cpu-clock", (1,), folded([unwound, cut])).unknown_share == 0.5


STAT = """# started on Mon Nov 30 00:27:25 2026

8000000,,cycles,3000000000,100.00,,
20000000,,instructions,3000000000,100.00,2.50,insn per cycle
<not supported>,,cache-misses,0,100.00,,
"""


def test_what_the_cpu_counts_is_told_and_what_it_does_not_count_is_absent() -> None:
    counted = counts(STAT)
    assert counted == {"cycles": 8_000_000, "instructions": 20_000_000}
    hybrid = (
        "5,,cpu_core/cycles/,9,75.00,,\n2,,cpu_atom/cycles/,3,25.00,,\n<not counted>,,cpu_atom/cache-misses/,0,0,,\n"
    )
    assert counts(hybrid) == {"cycles": 7}
    packets = {"pmd.packets_received": 50_000}
    told = CpuProfile("cycles", (1,), PROFILE.folded, {**counted, **packets}).summary()
    assert told.splitlines()[1] == "2.50 instructions a cycle"
    missed = CpuProfile("cycles", (1,), PROFILE.folded, {"cache-misses": 25_000, **packets})
    assert missed.facts == "0.50 cache misses a packet"
    assert CpuProfile("cycles", (1,), (), {"cache-misses": 0, "pmd.packets_received": 0}).facts == ""
    assert f"\nbefore: {missed.facts}\nnow: {missed.facts}\n" in missed.changes_text(missed)


def test_a_stack_that_is_too_narrow_to_be_seen_makes_no_picture_higher() -> None:
    """Steps: of 1000 samples one has a stack of 100 functions."""
    deep = tuple(f"f{number}" for number in range(100))
    picture = ET.fromstring(flame_graph(CpuProfile("cycles", (0,), ((("wide", "work"), 999), (deep, 1))), "x"))
    assert float(picture.attrib["viewBox"].split()[3]) < 150
    assert [box.findtext(f"{SVG}title") for box in picture.iter(f"{SVG}g")] == [
        "all: 100.0%, 1000 samples",
        "wide: 99.9%, 999 samples",
        "work: 99.9%, 999 samples",
    ]


def test_the_functions_that_ran_most_come_first_and_missing_symbols_are_said() -> None:
    assert PROFILE.top(1) == (("ovs-vswitchd", "copy_user", 0.5),)
    told = PROFILE.summary()
    assert told.startswith("4 samples of cpu-clock on CPU 0, 1\n 50.0%  ovs-vswitchd: copy_user\n")
    assert "50.0% of the samples are in functions without a name: install the debug symbols" in told


def test_where_all_have_names_nothing_is_missing() -> None:
    assert "without a name" not in CpuProfile("cycles", (1,), ((("a", "b"), 3),)).summary()


def test_boxes_are_as_wide_as_their_share_and_stand_on_their_callers() -> None:
    picture = ET.fromstring(flame_graph(PROFILE, "pod1 -> pod2"))
    boxes = {box.findtext(f"{SVG}title"): box.find(f"{SVG}rect") for box in picture.iter(f"{SVG}g")}
    whole, half = boxes["all: 100.0%, 4 samples"], boxes["copy_user: 50.0%, 2 samples"]
    below = boxes["packet_rcv: 50.0%, 2 samples"]
    assert whole is not None
    assert half is not None
    assert below is not None
    assert float(half.attrib["width"]) == pytest.approx(float(whole.attrib["width"]) / 2, rel=0.01)
    assert float(half.attrib["y"]) < float(below.attrib["y"]) < float(whole.attrib["y"])


def test_a_box_has_its_figure_where_that_fits() -> None:
    def labels(text: str) -> list[str]:
        return [label.text or "" for label in ET.fromstring(text).iter(f"{SVG}text")][2:]

    assert "copy_user 50%" in labels(flame_graph(PROFILE, "x"))
    assert "iperf3 -25.0%" in labels(differential_flame_graph(OTHER, PROFILE, "x"))
    narrow = CpuProfile("cycles", (0,), ((("wide",), 970), (("a_function_with_a_long_name",), 30)))
    assert "a_f…" in labels(flame_graph(narrow, "x"))


def test_names_are_escaped_and_an_empty_profile_is_a_picture() -> None:
    odd = CpuProfile("cycles", (0,), ((("a<b>", "operator&"), 1),))
    assert "a&lt;b&gt;" in flame_graph(odd, "x")
    empty = CpuProfile("cycles", (0,), ())
    ET.fromstring(flame_graph(empty, "<nothing>"))
    assert empty.unknown_share == 0.0


OTHER = CpuProfile(
    "cpu-clock",
    (0, 1),
    ((("iperf3", "[unknown]"), 2), (("ovs-vswitchd", "netdev_linux_rxq_recv", "packet_rcv", "copy_user"), 2)),
)


def test_what_changed_most_comes_first_also_what_is_gone() -> None:
    """Steps: four samples, of which two were copy_user, against four others. Verify: shares, by process."""
    assert OTHER.changes(PROFILE) == (
        ("iperf3", "[unknown]", 0.25, 0.5),
        ("odd:name", "[unknown]", 0.25, 0.0),
        ("ovs-vswitchd", "copy_user", 0.5, 0.5),
    )
    told = OTHER.changes_text(PROFILE, 2).splitlines()
    assert told[0] == "4 samples of cpu-clock before, 4 of cpu-clock now; a share may differ by 70.7% by chance"
    assert told[1:] == [" 25.0% ->  50.0%  iperf3: [unknown]", " 25.0% ->   0.0%  odd:name: [unknown]"]


def test_a_differential_graph_is_red_where_the_share_grew_and_blue_where_it_shrank() -> None:
    picture = ET.fromstring(differential_flame_graph(OTHER, PROFILE, "interface: tap against veth"))
    colours = {
        str(box.findtext(f"{SVG}title")): box.find(f"{SVG}rect").attrib["fill"]  # type: ignore[union-attr]
        for box in picture.iter(f"{SVG}g")
    }
    assert colours["odd:name: 25.0%, was 0.0%, +25.0%"].startswith("hsl(0 ")
    assert colours["iperf3: 25.0%, was 50.0%, -25.0%"].startswith("hsl(220 ")
    assert colours["copy_user: 50.0%, was 50.0%, +0.0%"] == "hsl(0 0% 95%)", "grey: neither more nor less"
    assert not [title for title in colours if title.endswith("-0.0%")]
    ET.fromstring(differential_flame_graph(CpuProfile("cycles", (0,), ()), PROFILE, "<nothing before>"))
