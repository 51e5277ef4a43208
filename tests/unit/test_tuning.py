"""Tuning as data: what it makes of OVS's configuration, and what it says to an OVS that is too old."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.ovs.nics import OvsPort, apply_tuning
from pytest_nfvperf.config.testbed_file import yaml_of_testbed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.ovs_settings import KEYS, OVS_DEFAULT, Tuning, with_queues
from pytest_nfvperf.model.topology.compose import phy2phy
from tests.config_support import parse_testbed

FILE = """
schema: 1
name: tuned
dut:
  ovs:
    pmd_cpus: [2, 3]
    tuning: {emc_insert_inv_prob: 0, smc: true, rxq_assign: group, rxq: 2, rxq_affinity: {dpdk0: "0:2,1:3"}}
  ports:
    - {name: dpdk0, pci: "0000:3b:00.0", line_rate: 100 Gbps}
"""

tunings = st.builds(
    Tuning,
    emc_insert_inv_prob=st.none() | st.integers(0, 2**32 - 1),
    smc=st.none() | st.booleans(),
    tx_flush_interval_us=st.none() | st.integers(0, 1_000_000),
    rxq_assign=st.none() | st.sampled_from(["cycles", "roundrobin", "group"]),
    auto_lb=st.none() | st.booleans(),
    pmd_sleep_max_us=st.none() | st.integers(0, 10_000),
    rxq=st.none() | st.integers(1, 16),
)


def test_it_is_shown_as_a_label() -> None:
    assert str(OVS_DEFAULT) == "default"
    tuning = Tuning(emc_insert_inv_prob=0, smc=True, rxq_affinity=(("p0", "0:1"),))
    assert str(tuning) == "emc_insert_inv_prob=0 smc=on rxq_affinity=p0:0:1"


def test_keys_of_ovs() -> None:
    tuning = Tuning(emc_insert_inv_prob=0, smc=True, auto_lb=False, pmd_sleep_max_us=50, other_config=(("x", "1"),))
    assert tuning.config((3, 3)) == {
        "emc-insert-inv-prob": "0",
        "smc-enable": "true",
        "pmd-auto-lb": "false",
        "pmd-sleep-max": "50",
        "x": "1",
    }
    assert "pmd-maxsleep" in tuning.config((3, 1)), "OVS 3.1 calls it so"


@pytest.mark.parametrize(
    ("tuning", "version", "message"),
    [
        (
            Tuning(pmd_sleep_max_us=50),
            (2, 17),
            "OVS 2.17 does not know pmd-sleep-max, which came with OVS 3.2 (pmd-maxsleep since 3.1)",
        ),
        (
            Tuning(auto_lb=True),
            (2, 10),
            "OVS 2.10 does not know pmd-auto-lb, which came with OVS 2.11",
        ),
    ],
)
def test_an_old_ovs_is_told_apart(tuning: Tuning, version: tuple[int, int], message: str) -> None:
    """OVS itself takes any key without a word."""
    unknown = tuning.unknown_to(version)
    assert unknown is not None
    assert unknown.startswith(f"{message}: leave ")
    assert unknown.endswith(" out, or test a newer OVS by --nfv-ovs")
    with pytest.raises(ValueError, match="does not know"):
        tuning.config(version)


@given(tunings)
def test_every_setting_has_its_key_and_a_new_ovs_knows_all(tuning: Tuning) -> None:
    config = tuning.config((4, 0))
    given_fields = {name for name in KEYS if getattr(tuning, name) is not None}
    assert set(config) == {KEYS[name][0] for name in given_fields}
    assert (str(tuning) == "default") == (tuning == OVS_DEFAULT)


@given(tunings, tunings)
def test_the_stronger_wins_where_it_says_something(above: Tuning, below: Tuning) -> None:
    merged = above.over(below)
    for name in (*KEYS, "rxq"):
        mine = getattr(above, name)
        assert getattr(merged, name) == (getattr(below, name) if mine is None else mine)
    assert above.over(OVS_DEFAULT) == above == OVS_DEFAULT.over(above)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rxq", 0, "rxq is 0: write a whole number from 1"),
        ("rxq_assign", "best", "rxq_assign is 'best': write one of cycles, roundrobin, group"),
        ("pmd_sleep_max_us", 20_000, "pmd_sleep_max_us is 20000: write a whole number from 0 to 10000"),
    ],
)
def test_what_cannot_be_is_named(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tuning(**{field: value})


def test_queues_and_rings_of_ports() -> None:
    tuning = Tuning(rxq=2, rxq_affinity=(("dpdk0", "0:2,1:3"),), rx_descriptors=4096)
    assert {port.queues for port in with_queues(phy2phy(), tuning).ports} == {2}
    nic = apply_tuning(OvsPort("dpdk0", "br0", "dpdk0", "dpdk", {"n_rxq": "1"}), tuning)
    assert nic.options == {"n_rxq": "2", "n_rxq_desc": "4096"}
    assert nic.other_config == {"pmd-rxq-affinity": "0:2,1:3"}
    vhost = apply_tuning(OvsPort("p0", "br0", "p0", "dpdkvhostuserclient"), tuning)
    assert (vhost.options, vhost.other_config) == ({}, {})


def test_a_testbed_file_has_it_and_gets_it_back() -> None:
    testbed, _ = parse_testbed(FILE, cores=8)
    assert testbed.ovs.tuning == Tuning(
        emc_insert_inv_prob=0, smc=True, rxq_assign="group", rxq=2, rxq_affinity=(("dpdk0", "0:2,1:3"),)
    )
    assert parse_testbed(yaml_of_testbed(testbed), cores=8)[0] == testbed


def test_a_slip_in_a_testbed_file_is_named() -> None:
    with pytest.raises(ConfigError, match="smc_enable"):
        parse_testbed(FILE.replace("smc:", "smc_enable:"), cores=8)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("emc_insert_inv_prob", 2**32, "must be at most 4294967295, not 4294967296"),
        ("tx_flush_interval_us", 2_000_000, "must be at most 1000000, not 2000000"),
        ("pmd_sleep_max_us", -1, "must be at least 0, not -1"),
        ("rxq", 0, "must be at least 1, not 0"),
        ("rxq_assign", "best", "must be cycles or roundrobin or group, not 'best'"),
    ],
)
def test_what_cannot_be_in_a_testbed_file_names_file_and_key(key: str, value: object, message: str) -> None:
    for section in ("dut: {ovs: {tuning: %s}}", "nodes: {node1: {tuning: %s}}"):
        path = "dut.ovs" if section.startswith("dut") else "nodes.node1"
        with pytest.raises(ConfigError) as caught:
            parse_testbed(f"schema: 1\nname: x\n{section % f'{{{key}: {value}}}'}\n", "lab.yaml", cores=8)
        assert str(caught.value) == f"lab.yaml:3: {path}.tuning.{key}: {message}"
