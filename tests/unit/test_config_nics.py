"""What a testbed file says of NICs that the run sets up, and how VFs are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.config.testbed_file import yaml_of_testbed
from pytest_nfvperf.model.fields import normal_pci, vf_of
from pytest_nfvperf.model.testbed.lab_cables import cabled_ends, is_pci
from pytest_nfvperf.model.testbed.testbed import NicSpec
from tests.config_support import Numa, parse, refusal

LAB = """
schema: 1
name: lab
dut:
  ports:
    - {name: dpdk0, pci: "05:00.0 vf 0"}
generator: {ports: [0], devices: ["06:00.0 vf 1"]}
links: [[generator.0, dut.dpdk0]]
nics:
  "0000:05:00.0": {vfs: 2}
  "0000:05:00.0 vf 0": {bind: vfio-pci, mac: "02-00-00-00-00-0A", trust: true, vlan: 0, spoofchk: false}
  "0000:07:00.0": {bind: vfio-pci}
"""
MACS = st.integers(1, (1 << 40) - 1).map(lambda number: ":".join(f"{byte:02x}" for byte in number.to_bytes(6, "big")))


def test_nics_and_vfs_are_read_and_written():
    testbed, _ = parse(LAB)
    assert list(map(str, testbed.nics)) == [
        "0000:05:00.0: 2 VFs",
        "0000:05:00.0 vf 0: bind vfio-pci, mac 02:00:00:00:00:0a, vlan 0, trust on, spoofchk off",
        "0000:07:00.0: bind vfio-pci",
    ]
    (end,) = cabled_ends(testbed)
    assert end.members[0].pci == "0000:05:00.0 vf 0"
    assert end.device == "0000:06:00.0 vf 1"
    assert parse(yaml_of_testbed(testbed))[0] == testbed


def test_names_of_vfs():
    assert is_pci("5e:00.1 vf 12")
    assert normal_pci("5E:00.1 vf 012") == "0000:5e:00.1 vf 12"
    assert vf_of("0000:5e:00.1 vf 12") == ("0000:5e:00.1", 12)
    for other in ("0000:5e:00.1", "net_virtio_user,path=/tmp/a vf 3.sock", "ens1 vf 1", "0000:5e:00.1 vf -1"):
        assert vf_of(other) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ('"05:00.0 vf 0"', '"05:00.0 vf 2"'),
            "lab.yaml:6: dut.ports[0].pci: 0000:05:00.0 gets 2 VFs, 0 to 1, so there is no VF 2: write 'vfs: 3'",
        ),
        (
            ('"06:00.0 vf 1"', '"05:00.0 vf 9"'),
            "lab.yaml:7: generator.devices[0]: 0000:05:00.0 gets 2 VFs, 0 to 1, so there is no VF 9: write 'vfs: 10'",
        ),
        (
            ("{vfs: 2}", "{vfs: 2, bind: vfio-pci}"),
            ".bind: the kernel's driver of a PF makes its VFs: leave 'bind' out, or 'vfs'",
        ),
        (("{vfs: 2}", "{vfs: 0}"), "lab.yaml:10: nics.0000:05:00.0.vfs: must be at least 1, not 0"),
        (
            ("bind: vfio-pci}", "vlan: 7}"),
            "lab.yaml:12: nics.0000:07:00.0: vlan: only a VF has this; write it at '0000:07:00.0 vf 0'",
        ),
        (
            ("vlan: 0,", "vfs: 2,"),
            "lab.yaml:11: nics.0000:05:00.0 vf 0.vfs: a VF has no VFs: leave it out",
        ),
        (
            ("02-00", "03-00"),
            "vf 0.mac: '03-00-00-00-00-0A' is no MAC address of one NIC: write e.g. '02:00:00:00:00:01'",
        ),
        (("02-00", "02"), "mac: '02-00-00-00-0A' is not a MAC address: write e.g. '02:00:00:00:00:01'"),
        (("bind: vfio-pci}", "bind: vfio}"), "bind: must be vfio-pci or uio_pci_generic, not 'vfio', did you mean"),
        (('"0000:07', '"07'), "lab.yaml:12: nics.07:00.0: write '0000:07:00.0', with the domain and in lower case"),
        (
            ('"0000:07:00.0"', "ens7"),
            "nics.ens7: 'ens7' is not a PCI address (domain:bus:device.function): write e.g. '0000:3b:00.0', or ",
        ),
        (
            ('["06:00.0 vf 1"]', "[ens7]"),
            "generator.devices[0]: the kernel has no 'ens7' while nics.0000:07:00.0 binds it: write its address",
        ),
    ],
)
def test_slips_of_nics(change, said):
    assert said in refusal(LAB.replace(*change), numa=Numa(interfaces={"ens7": "0000:07:00.0"}))


def test_a_vf_has_one_owner():
    text = LAB.replace('"06:00.0 vf 1"', '"0000:05:00.0 vf 0"')
    assert "'0000:05:00.0 vf 0' is used twice: also by dut.ports 'dpdk0'" in refusal(text)


@given(
    st.lists(
        st.builds(
            NicSpec,
            st.integers(0, 255).map(lambda bus: f"0000:{bus:02x}:00.0 vf 3"),
            st.sampled_from([None, "vfio-pci", "uio_pci_generic"]),
            mac=st.none() | MACS,
            vlan=st.none() | st.integers(0, 4094),
            trust=st.none() | st.booleans(),
            spoofchk=st.none() | st.booleans(),
        ),
        unique_by=lambda nic: nic.pci,
    )
)
def test_what_is_written_reads_back(nics):
    testbed, _ = parse("schema: 1\nname: lab\n")
    object.__setattr__(testbed, "nics", tuple(nics))
    assert parse(yaml_of_testbed(testbed))[0].nics == tuple(nics)
