"""Testbed files that nfvperf writes: each reads back to an equal testbed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.config.testbed_file import yaml_of_testbed
from pytest_nfvperf.model.testbed.testbed import (
    CableSpec,
    CpuPlan,
    DutPort,
    GeneratorSpec,
    OvsSpec,
    StreamsSpec,
    Testbed,
)
from tests.config_support import parse, parse_testbed

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,12}", fullmatch=True)
TEXTS = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cc", "Cs", "Zl", "Zp", "Cn"]),
    min_size=1,
    max_size=20,
)
RINGS = st.none() | st.sampled_from([64, 512, 4096])


@st.composite
def some_testbed(draw):
    kinds = draw(st.lists(st.sampled_from(["vhost-user", "pci", "interface"]), max_size=4))
    names = draw(st.lists(NAMES, min_size=len(kinds), max_size=len(kinds), unique=True))
    ports = tuple(
        DutPort(
            name,
            kind,
            pci=f"0000:{index:02x}:00.{index}" if kind == "pci" else None,
            interface=f"eth{index}" if kind == "interface" else None,
            rxq=draw(st.integers(1, 16)),
            rx_descriptors=draw(RINGS),
            tx_descriptors=draw(RINGS),
            mtu=draw(st.none() | st.integers(68, 9702)),
            line_rate_bps=draw(st.none() | st.floats(0, 1e13) | st.sampled_from([1e10, 25e9, 1e11])),
            driver=draw(st.sampled_from([None, "kernel"])) if kind == "interface" else None,
            representor=draw(st.sampled_from([None, "0", "vf2", "pf0vf1"])) if kind == "pci" else None,
            model=draw(st.none() | TEXTS),
        )
        for index, (name, kind) in enumerate(zip(names, kinds, strict=True))
    )
    numbers = tuple(range(len(ports)))
    trex = draw(st.booleans())
    cpus = draw(st.lists(st.integers(0, 200), unique=True, max_size=12))
    cuts = sorted(draw(st.lists(st.integers(0, len(cpus)), min_size=3, max_size=3)))
    owned = [tuple(cpus[a:b]) for a, b in zip([0, *cuts], [*cuts, len(cpus)], strict=True)]
    return Testbed(
        name=draw(TEXTS),
        ovs=OvsSpec(
            draw(st.sampled_from(["private", "system"])),
            draw(st.none() | TEXTS),
            "dpdk" if "pci" in kinds else draw(st.sampled_from(["dpdk", "netdev", "system"])),
            # Hypothesis tries words of our source, too, and some keys are refused.
            tuple(draw(st.dictionaries(TEXTS.map("x-{}".format), TEXTS, max_size=3)).items()),
        ),
        cpus=CpuPlan(*owned),
        ports=ports,
        generator=GeneratorSpec(
            "trex" if trex else "embedded",
            draw(TEXTS) if trex else None,
            None,
            numbers,
            draw(st.booleans()),
            () if trex else draw(st.sampled_from([(), tuple(f"gen{number}" for number in numbers)])),
        ),
        links=tuple(CableSpec(str(number), port.name) for number, port in zip(numbers, ports, strict=True)),
        hugepages_mib=draw(st.integers(0, 1 << 20)),
        discovered=draw(st.booleans()),
        vnf_kind=draw(st.sampled_from([None, "loop", "testpmd", "qemu"])),
        streams=StreamsSpec(
            path=draw(st.sampled_from([None, "iperf3-3.18", "/opt/bin/iperf3"])),
            ports=draw(st.lists(st.integers(1, 65535), max_size=3).map(tuple) | st.just(tuple(range(5201, 5265)))),
            client_cpus=draw(st.lists(st.integers(0, 200), max_size=3).map(tuple)),
            server_cpus=draw(st.lists(st.integers(0, 200), max_size=3).map(tuple)),
        ),
    )


@settings(deadline=None)  # a machine that does other things is no reason to fail
@given(some_testbed())
def test_a_written_testbed_reads_back_equal(testbed):
    again, _ = parse(yaml_of_testbed(testbed), cores=256)
    assert again == testbed


def test_the_discovered_testbed_is_written_as_if_given():
    """What a run without a file keeps in its evidence can be given to the next run."""
    found = discover_testbed()
    again, _ = parse_testbed(yaml_of_testbed(found))
    assert again == replace(found, links=again.links)
    assert [(f"generator.{link.generator}", link.dut) for link in again.links] == [
        (f"generator.{link.generator.removeprefix('generator.')}", link.dut) for link in found.links
    ]
