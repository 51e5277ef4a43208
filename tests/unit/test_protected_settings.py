"""No setting of a user's replaces what keeps a private OVS off the rest of the host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.measure.compare import parse_sides
from pytest_nfvperf.model.testbed.ovs_settings import Tuning, append_dpdk_arguments, why_setting_refused
from tests.config_support import parse_testbed

FILE = "schema: 1\nname: lab\ndut:\n  ovs: {{instance: {instance}, other_config: {{{setting}}}}}\n"


def said(setting: str, instance: str = "private") -> str:
    try:
        parse_testbed(FILE.format(setting=setting, instance=instance), "lab.yaml")
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("setting", "instead"),
    [
        ("dpdk-init: false", "write 'datapath: dpdk' or 'netdev' there"),
        ("pmd-cpu-mask: '0xff'", "pmd-cpu-mask is the run's own: the run locks the CPUs of PMD threads: write them as"),
        ("dpdk-lcore-mask: '0x1'", "write 'cpus: {housekeeping: ...}'"),
        ("dpdk-probe-at-init: false", "DPDK takes the NICs of dut.ports"),
        ("dpdk-hugepage-dir: /mnt/huge", "keeps its memory in no file"),
        ("userspace-tso-enable: true", "write Dut(userspace_tso=True) in the test"),
        ("dpdk-extra: '-a 0000:3b:00.0'", "dpdk-extra has '-a', which is the run's own: DPDK takes the NICs of dut"),
        ("dpdk-extra: '--iova-mode=va -a0000:3b:00.0'", "dpdk-extra has '-a0000:3b:00.0'"),
        ("dpdk-extra: '--allow=0000:3b:00.0'", "write 'pci: ...' there"),
        ("dpdk-extra: '--file-pre=rte'", "keeps this OVS apart from other users of DPDK on the host"),
        ("dpdk-extra: '--proc-type auto'", "keeps this OVS apart"),
        ("dpdk-extra: '--socket-mem=4096'", "write other_config 'dpdk-socket-mem'"),
        ("dpdk-extra: '-l 0-7'", "DPDK's own threads run on the testbed's CPUs"),
        ("dpdk-extra: '-- --no-pci'", "nothing of ours may stand behind it"),
        ('dpdk-extra: "\'"', "cannot be read: No closing quotation"),
    ],
)
def test_a_setting_of_the_runs_own_is_refused_by_name(setting: str, instead: str) -> None:
    message = said(setting)
    assert message.startswith("lab.yaml:4: dut.ovs.other_config: ")
    assert instead in message


@pytest.mark.parametrize(
    "setting", ["max-idle: 5000", "dpdk-extra: '--iova-mode=va --log-level=pmd:debug -n 4'", "dpdk-socket-mem: '2048'"]
)
def test_others_are_taken(setting: str) -> None:
    assert said(setting) == ""


def test_of_the_systems_ovs_a_file_may_say_what_its_owner_has_set_but_not_its_pmds() -> None:
    assert said("dpdk-extra: '-a 0000:3b:00.0'", "system") == ""
    assert "write them as 'dut.ovs.pmd_cpus'" in said("pmd-cpu-mask: '0xff'", "system")


def test_neither_a_tuning_nor_a_side_of_a_comparison_replaces_them() -> None:
    with pytest.raises(ValueError, match="dpdk-extra has '--no-huge', which is the run's own"):
        Tuning(other_config=(("dpdk-extra", "--no-huge"),))
    with pytest.raises(ConfigError, match="--set: 'b:other_config:pmd-cpu-mask=0x1': pmd-cpu-mask is the run's own"):
        parse_sides(["a", "b"], ["b:other_config:pmd-cpu-mask=0x1"])


def test_a_key_is_given_once_in_a_file() -> None:
    text = "schema: 1\nname: a\ndut: {ovs: {other_config: {smc-enable: true}, tuning: {smc: false}}}"
    with pytest.raises(ConfigError, match=r"smc-enable is also given by dut\.ovs\.tuning\.smc: keep one"):
        parse_testbed(text)


@given(st.lists(st.sampled_from(["--iova-mode=va", "-n", "4", "--no-pci", "--file-prefix=x", "-ax", "--vdev=net_x"])))
def test_ours_stay_the_last_of_their_kind(arguments: list[str]) -> None:
    """DPDK takes the last of an option given twice: what is accepted never says one of ours again."""
    users = " ".join(arguments)
    ours = "--no-pci --file-prefix=ours"
    refused = bool({"--no-pci", "--file-prefix=x", "-ax"} & set(arguments))
    assert bool(why_setting_refused("dpdk-extra", users)) == refused
    assert append_dpdk_arguments(ours, users).startswith(ours)
