"""Which ports of a testbed are NICs, physical or virtual functions, and why tests of NICs are skipped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.adapters.host.nic import function_of, most_vfs
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.testbed.testbed import CpuPlan, DutPort, GeneratorSpec, OvsSpec, Testbed
from pytest_nfvperf.plugin.selection import COUNTED
from pytest_nfvperf.session.deployment import Nics, why_no_nics

PF, VF = DutPort("dpdk0", pci="0000:3b:00.0"), DutPort("vf0", pci="0000:3b:02.0")
PF1, VF1 = DutPort("dpdk1", pci="0000:3B:00.1"), DutPort("vf1", pci="0000:3b:02.1")
PLAIN, VETH = DutPort("dpdk2", interface="ens1"), DutPort("veth", interface="near0")


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Two PFs with a VF each, a NIC without SR-IOV by its interface, and a veth."""
    for number, most in enumerate((64, 32)):
        pf, vf = (tmp_path / f"bus/pci/devices/0000:3b:{slot}.{number}" for slot in ("00", "02"))
        pf.mkdir(parents=True)
        vf.mkdir()
        (pf / "sriov_totalvfs").write_text(f"{most}\n")
        (vf / "physfn").symlink_to(pf)
    (tmp_path / "class/net/ens1/device").mkdir(parents=True)
    (tmp_path / "class/net/near0").mkdir()
    return tmp_path


def lab_of(*ports: DutPort) -> Testbed:
    return Testbed("lab", CpuPlan(), ovs=OvsSpec(), ports=ports, generator=GeneratorSpec(), links=())


def nics_of(sysfs: Path, *ports: DutPort, records: list[Any] | None = None) -> Nics:
    recorder = SimpleNamespace(emit=[].append if records is None else records.append)
    session = SimpleNamespace(backend=SimpleNamespace(testbed=lab_of(*ports)), recorder=recorder)
    return Nics(session, {"suite": "nic", "test": "test_number_of_vfs"}, sysfs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("port", "function", "vfs"),
    [(PF, "pf", 64), (PF1, "pf", 32), (VF, "vf", 64), (VF1, "vf", 32), (PLAIN, "pf", None), (VETH, None, None)],
)
def test_the_function_and_the_vfs_of_a_port(sysfs: Path, port: DutPort, function: str | None, vfs: int | None) -> None:
    assert (function_of(port, sysfs), most_vfs(port, sysfs)) == (function, vfs)


def test_a_device_that_is_absent_has_no_function(sysfs: Path) -> None:
    assert function_of(DutPort("dpdk0", pci="0000:99:00.0"), sysfs) is None
    assert function_of(DutPort("vhost0"), sysfs) is None


def test_why_tests_of_nics_are_skipped(sysfs: Path) -> None:
    assert why_no_nics(lab_of(), (), sysfs) == (
        "the testbed has no NIC: name NICs in a testbed file, by dut.ports[].pci or .interface"
    )
    assert why_no_nics(lab_of(PF, VETH), (PF, VETH), sysfs) == (
        "port 'veth' is no NIC: its interface 'near0' is virtual (no device)"
    )
    elsewhere = DutPort("dpdk0", pci="0000:99:00.0")
    assert why_no_nics(lab_of(elsewhere, PLAIN), (elsewhere, PLAIN), sysfs) is None
    with pytest.raises(UnavailableError, match="the testbed has no NIC"):
        nics_of(sysfs, DutPort("vhost0"))


def test_every_port_needs_the_queues() -> None:
    two, four = DutPort("dpdk0", pci="0000:3b:00.0", rxq=2), DutPort("dpdk1", pci="0000:3b:00.1", rxq=4)
    lacking = COUNTED["rxq"]
    assert lacking(lab_of(four, two), 2) is None
    wants = "in dut.ports of the testbed file"
    assert lacking(lab_of(four, two), 3) == f"port 'dpdk0' has 2 receive queues: write 'rxq: 3' or more {wants}"
    assert lacking(lab_of(PF, four), 2) == f"port 'dpdk0' has 1 receive queue: write 'rxq: 2' or more {wants}"
    assert lacking(lab_of(), 2) == why_no_nics(lab_of(), ())


def test_ports_on_each_function(sysfs: Path) -> None:
    found = nics_of(sysfs, PF, VF, PF1, VF1)
    assert found.ports_on("pf") == ("dpdk0", "dpdk1")
    assert found.ports_on("vf") == ("vf0", "vf1")
    with pytest.raises(UnavailableError) as caught:
        nics_of(sysfs, PF, PF1, VF).ports_on("vf")
    assert str(caught.value) == (
        "1 of the testbed's ports are virtual functions, and two are needed: name them in dut.ports, each with a "
        "cable of its own"
    )


def test_the_number_of_vfs_is_that_of_the_nic_with_fewest(sysfs: Path) -> None:
    records: list[Any] = []
    outcome = nics_of(sysfs, PF, VF1, records=records).virtual_functions()
    (seen,) = outcome.figures
    assert (seen.metric, seen.value, seen.unit) == ("virtual_functions", 32.0, "VFs")
    assert records == [outcome]
    assert outcome.notes == ("dpdk0: 64 VFs, vf1: 32 VFs",)
    with pytest.raises(UnavailableError, match=r"the NIC of port 'dpdk2' has no SR-IOV \(sriov_totalvfs in sysfs\)"):
        nics_of(sysfs, PF, PLAIN).virtual_functions()
