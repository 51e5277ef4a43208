"""NICs that a run sets up and gives back, on a double of sysfs behind which a little kernel reacts.

The kernel does what Linux 6.1 does (drivers/base/bus.c, drivers/pci/iov.c). A run can be killed before or after any of
its writes; then its journal must be enough to undo what it did.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroute2.netlink.exceptions import NetlinkError

from pytest_nfvperf.adapters.host.nic import pci_address
from pytest_nfvperf.adapters.host.nic_binding import (
    PciBus,
    check_nics,
    give_back_driver,
    remove_vfs,
    restore_vf,
    set_up_nics,
)
from pytest_nfvperf.adapters.host.pci import PciDevice, check_device
from pytest_nfvperf.adapters.process.journal import Entry, Journal, Kind, read_entries
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.testbed import NicSpec
from tests.examples import examples

NIC, SECOND, PF = "0000:03:00.0", "0000:03:00.1", "0000:05:00.0"
VF0, VF1 = f"{PF} vf 0", f"{PF} vf 1"
MAC, OTHER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
UNSET = {"mac": "00:00:00:00:00:00", "vlan": 0, "qos": 0, "trust": False, "spoofchk": True}
UNDO: Mapping[Kind, Callable[[Entry, PciBus], bool]] = {
    Kind.PCI_DRIVER: give_back_driver,
    Kind.VFS: remove_vfs,
    Kind.VF: restore_vf,
}


class Killed(BaseException):
    """The run was killed here."""


class LittleKernel(PciBus):
    """PCI devices as files, and what the kernel does when such a file is written.

    ``native``: the driver that a device's ids match.
    ``dies_at``: twice the number of the write before which the run is killed; odd: after that write.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root / "sys")
        self.native: dict[str, str] = {}
        self.vfs: dict[str, list[dict[str, Any]]] = {}
        self.links: dict[str, dict[str, Any]] = {}
        self.used: dict[str, str] = {}
        self.open: dict[str, list[tuple[int, str]]] = {}
        self.loadable = {"vfio-pci"}
        self.deaf: set[str] = set()  # drivers that take no device
        self.written: list[str] = []
        self.brought_up: list[str] = []
        self.dies_at: int | None = None
        for driver in ("igb", "igbvf", "e1000e"):
            (self.sysfs / "bus/pci/drivers" / driver).mkdir(parents=True)

    def folder(self, address: str) -> Path:
        return self.sysfs / "bus/pci/devices" / address

    def add(self, address: str, native: str = "igb", *, driver: str | None = "igb", totalvfs: int = 0) -> None:
        folder = self.folder(address)
        folder.mkdir(parents=True)
        for name, text in {"vendor": "0x8086", "device": "0x10c9", "driver_override": "(null)"}.items():
            (folder / name).write_text(text + "\n")
        if totalvfs:
            for name, text in {"totalvfs": str(totalvfs), "numvfs": "0", "drivers_autoprobe": "1"}.items():
                (folder / f"sriov_{name}").write_text(text + "\n")
            self.vfs[address] = []
        self.native[address] = native
        if driver is not None:
            self._attach(address, driver)

    def _attach(self, address: str, driver: str) -> None:
        (self.sysfs / "bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
        (self.folder(address) / "driver").symlink_to(self.sysfs / "bus/pci/drivers" / driver)
        if driver == self.native[address]:
            name = "eth" + address[5:].replace(":", "").replace(".", "")
            (self.folder(address) / "net" / name).mkdir(parents=True)
            self.links[name] = {"name": name, "mtu": 1500, "up": False}

    def _detach(self, address: str) -> None:
        assert not self.open.get(address), "the kernel would wait for the program that has it open"
        (self.folder(address) / "driver").unlink()
        for path in (self.folder(address) / "net").glob("*"):
            del self.links[path.name]
        shutil.rmtree(self.folder(address) / "net", ignore_errors=True)

    def write(self, path: Path, text: str) -> None:
        at = len(self.written)
        if self.dies_at == 2 * at:
            raise Killed
        self.written.append(f"{path.relative_to(self.sysfs)}={text}")
        self._react(path, text.strip())
        if self.dies_at == 2 * at + 1:
            raise Killed

    def _react(self, path: Path, text: str) -> None:
        if path.name == "driver_override":
            path.write_text((text or "(null)") + "\n")
        elif path.name == "unbind":
            self._detach(text)
        elif path.name == "bind":
            override = self.override(text)
            if (self.folder(text) / "driver").exists() or override not in {None, path.parent.name}:
                raise OSError(errno.ENODEV, "No such device", str(path))
            self._attach(text, path.parent.name)
        elif path.name == "drivers_probe":
            self._probe(text)
        elif path.name == "sriov_numvfs":
            self._number_vfs(path.parent.name, int(text))
        else:
            path.write_text(text + "\n")

    def override(self, address: str) -> str | None:
        text = (self.folder(address) / "driver_override").read_text().strip()
        return None if text == "(null)" else text

    def _probe(self, address: str) -> None:
        override, physfn = self.override(address), self.folder(address) / "physfn"
        automatic = not physfn.exists() or (physfn / "sriov_drivers_autoprobe").read_text().strip() == "1"
        driver = override or self.native[address]
        if (automatic or override) and driver not in self.deaf and not (self.folder(address) / "driver").exists():
            self._attach(address, driver)

    def _number_vfs(self, pf: str, number: int) -> None:
        if number and self.vfs[pf]:
            raise OSError(errno.EBUSY, "Device or resource busy")
        for at in range(len(self.vfs[pf])):
            address = (self.folder(pf) / f"virtfn{at}").resolve().name
            if (self.folder(address) / "driver").exists():
                self._detach(address)
            (self.folder(pf) / f"virtfn{at}").unlink()
            shutil.rmtree(self.folder(address))
        self.vfs[pf] = [dict(UNSET) for _ in range(number)]
        for at in range(number):
            address = f"{pf[:8]}10.{at}"
            self.add(address, "igbvf", driver=None)
            (self.folder(address) / "physfn").symlink_to(self.folder(pf))
            (self.folder(pf) / f"virtfn{at}").symlink_to(self.folder(address))
            self._probe(address)
        (self.folder(pf) / "sriov_numvfs").write_text(f"{number}\n")

    def uses(self, device: PciDevice) -> list[str]:
        return [
            f"its interface {name!r} is in use: {self.used[name]}" for name in device.interfaces if name in self.used
        ]

    def holders(self, device: PciDevice) -> list[tuple[int, str]]:
        return self.open.get(device.address, [])

    def load(self, driver: str) -> None:
        if driver not in self.loadable | {path.name for path in (self.sysfs / "bus/pci/drivers").glob("*")}:
            raise TestbedError(f"modprobe {driver} ended with exit status 1")
        (self.sysfs / "bus/pci/drivers" / driver).mkdir(exist_ok=True)

    def bring_up(self, pf: PciDevice, journal: Journal, key: str) -> None:
        """Noted only: BorrowedInterfaces has tests of its own, and puts an interface down again."""
        self.brought_up.append(pf.address)

    def read_vf(self, pf: PciDevice, number: int) -> dict[str, Any]:
        return dict(self.vfs[pf.address][number])

    def set_vf(self, pf: PciDevice, number: int, **given: Any) -> None:
        self.write(self.folder(pf.address) / "vf", f"{number} {given}")
        if given.get("trust") and "trust" in self.deaf:
            raise NetlinkError(errno.EOPNOTSUPP, "Operation not supported")
        self.vfs[pf.address][number] |= {"qos": 0} | given if "vlan" in given else given

    def read_interfaces(self, device: PciDevice) -> list[dict[str, Any]]:
        return [dict(self.links[name]) for name in device.interfaces]

    def restore_interface(self, current: str, found: Mapping[str, Any]) -> None:
        self.links[current] = dict(found)

    def state(self) -> dict[str, Any]:
        """All that a run could have changed."""
        found: dict[str, Any] = {"links": {name: dict(link) for name, link in sorted(self.links.items())}}
        for folder in sorted((self.sysfs / "bus/pci/devices").iterdir()):
            driver = folder / "driver"
            facts = [driver.resolve().name if driver.exists() else None, self.override(folder.name)]
            facts += [path.read_text() for path in sorted(folder.glob("sriov_*"))]
            found[folder.name] = [*facts, [dict(vf) for vf in self.vfs.get(folder.name, [])]]
        return found


def undo(entries: Sequence[Entry], kernel: PciBus) -> list[tuple[str, str]]:
    for entry in reversed(tuple(entries)):
        UNDO[entry.kind](entry, kernel)
    return []


@contextmanager
def machine() -> Iterator[tuple[LittleKernel, Journal]]:
    """Three NICs that the kernel's driver has, and the journal of a run."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:  # the journal waits for the disk
        kernel = LittleKernel(Path(root))
        kernel.add(NIC)
        kernel.add(SECOND)
        kernel.add(PF, totalvfs=7)
        yield kernel, Journal.create(lambda entries: undo(entries, kernel), Path(root) / "runs")


@pytest.fixture
def rig() -> Iterator[tuple[LittleKernel, Journal]]:
    with machine() as made:
        yield made


def driver_of(kernel: LittleKernel, address: str) -> str | None:
    device = kernel.device(address)
    assert device is not None
    return device.driver


def refusal(kernel: LittleKernel, *nics: NicSpec, kind: type[NfvperfError] = ConfigError) -> str:
    with pytest.raises(kind) as caught:
        check_nics(nics, kernel)
    assert kernel.written == []
    return str(caught.value)


def test_a_nic_is_bound_and_given_back(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, journal = rig
    kernel.links["eth03000"] |= {"mtu": 9000, "up": True}
    before = kernel.state()
    set_up_nics([NicSpec(NIC, bind="vfio-pci")], journal, kernel)
    assert driver_of(kernel, NIC) == "vfio-pci"
    assert driver_of(kernel, SECOND) == "igb"
    journal.close()
    assert kernel.state() == before, "the interface is up again, with its MTU"


def test_a_nic_that_is_bound_already_stays_bound(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, journal = rig
    kernel.add("0000:04:00.0", driver="vfio-pci")
    before = kernel.state()
    set_up_nics([NicSpec("0000:04:00.0", bind="vfio-pci")], journal, kernel)
    assert journal.entries == ()
    journal.close()
    assert kernel.state() == before
    assert kernel.written == []


def test_a_nic_without_a_driver_has_none_again(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, journal = rig
    kernel.add("0000:04:00.0", driver=None)
    before = kernel.state()
    kernel.loadable.add("uio_pci_generic")
    set_up_nics([NicSpec("0000:04:00.0", bind="uio_pci_generic")], journal, kernel)
    assert driver_of(kernel, "0000:04:00.0") == "uio_pci_generic"
    journal.close()
    assert kernel.state() == before


def test_vfs_are_made_set_up_bound_and_removed(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, journal = rig
    before = kernel.state()
    nics = [
        NicSpec(PF, vfs=3),
        NicSpec(VF0, bind="vfio-pci", mac=MAC, trust=True, spoofchk=False),
        NicSpec(VF1, bind="vfio-pci", vlan=100),
    ]
    check_nics(nics, kernel)
    set_up_nics(nics, journal, kernel)
    assert [driver_of(kernel, f"{PF} vf {number}") for number in range(3)] == ["vfio-pci", "vfio-pci", "igbvf"]
    assert kernel.brought_up == [PF]
    assert kernel.vfs[PF] == [
        UNSET | {"mac": MAC, "trust": True, "spoofchk": False},
        UNSET | {"vlan": 100},
        UNSET,
    ]
    assert not [line for line in kernel.written if "0000:05:10.0/driver/unbind" in line], "igbvf never had it"
    assert pci_address(VF1, kernel.sysfs) == "0000:05:10.1"
    assert check_device(VF1, "port 'p'", "k", kernel.sysfs, planned={VF1: "uio_pci_generic"}).address == "0000:05:10.1"
    journal.close()
    assert kernel.state() == before
    with pytest.raises(TestbedError, match=f"{PF} has no VF 1 now"):
        pci_address(VF1, kernel.sysfs)


def test_vfs_that_somebody_made_get_their_settings_and_driver_back(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, journal = rig
    kernel.write(kernel.folder(PF) / "sriov_numvfs", "2")
    kernel.vfs[PF][0] |= {"mac": OTHER_MAC, "vlan": 7, "qos": 3}
    before = kernel.state()
    set_up_nics([NicSpec(VF0, bind="vfio-pci", mac=MAC, vlan=8), NicSpec(VF1, trust=True)], journal, kernel)
    assert kernel.vfs[PF] == [UNSET | {"mac": MAC, "vlan": 8}, UNSET | {"trust": True}]
    assert driver_of(kernel, VF0) == "vfio-pci"
    assert kernel.brought_up == [PF], "a VF has a link only while its PF is up"
    kernel.written.clear()
    journal.close()
    assert kernel.state() == before
    steps = [line.partition("=")[0].rpartition("/")[2] for line in kernel.written]
    assert "vf" not in steps[steps.index("unbind") :], "the driver finds the MAC address as it was"
    kernel.links["eth05000"]["up"] = True
    with closing(Journal.create(lambda entries: undo(entries, kernel), kernel.sysfs.parent / "again")) as again:
        set_up_nics([NicSpec(VF1, trust=True)], again, kernel)
        assert kernel.brought_up == [PF], "it is up already"


def test_a_pf_with_vfs_of_somebody_else_is_refused(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, journal = rig
    kernel.write(kernel.folder(PF) / "sriov_numvfs", "2")
    with pytest.raises(ConfigError) as caught:
        set_up_nics([NicSpec(PF, vfs=2)], journal, kernel)
    assert str(caught.value) == (
        f"nics.{PF}.vfs: it has 2 VFs already, which somebody else made: remove them (echo 0 > "
        f"{kernel.folder(PF)}/sriov_numvfs), or leave 'vfs' out and use them as they are"
    )
    kernel.written.clear()
    assert refusal(kernel, NicSpec(PF, bind="vfio-pci")) == (
        f"nics.{PF}: it is a PF with 2 VFs, which would be gone: remove them first, or bind one of them"
    )


@pytest.mark.parametrize("nic", [NicSpec(PF, bind="vfio-pci"), NicSpec(PF, vfs=1)])
def test_the_machine_needs_it(rig: tuple[LittleKernel, Journal], nic: NicSpec) -> None:
    kernel, journal = rig
    kernel.used["eth05000"] = "the default route leads by it"
    said = (
        f"nics.{PF}: its interface 'eth05000' is in use: the default route leads by it; the run would cut it off. Name "
        "another NIC, or free this one first"
    )
    assert refusal(kernel, nic) == said
    with pytest.raises(ConfigError, match="the run would cut it off"):  # it may have got the route since
        set_up_nics([nic], journal, kernel)
    assert kernel.written == []


def test_what_lies_on_an_interface_needs_it(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, _ = rig
    (kernel.sysfs / "class/net/eth03000/upper_bond0").mkdir(parents=True)
    device = kernel.device(NIC)
    assert device is not None
    assert PciBus(kernel.sysfs).uses(device) == ["its interface 'eth03000' is in use: bond0 lies on it"]


def test_an_interface_in_another_namespace(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, _ = rig
    (kernel.folder(NIC) / "net/eth03000").rmdir()
    assert refusal(kernel, NicSpec(NIC, bind="vfio-pci")) == (
        f"nics.{NIC}: its interface is in another network namespace, where somebody may need it: move it back first"
    )


def test_a_nic_that_is_absent_is_a_broken_testbed(rig: tuple[LittleKernel, Journal]) -> None:
    said = refusal(rig[0], NicSpec("0000:09:00.0", bind="vfio-pci"), kind=TestbedError)
    assert said == "nics.0000:09:00.0: this machine has no PCI device 0000:09:00.0: see lspci -D"


@pytest.mark.parametrize(
    ("nic", "said"),
    [
        (
            NicSpec(VF1, bind="vfio-pci"),
            f"this machine has no PCI device {VF1}: write 'vfs: N' at its PF, or make it first",
        ),
        (NicSpec(NIC, vfs=1), "it cannot have VFs: leave 'vfs' out"),
        (NicSpec(PF, vfs=8), "it can have 7 VFs, not 8"),
        (
            NicSpec("0000:04:00.0", vfs=1),
            "its VFs are made by the kernel's driver, and vfio-pci has it: give it back first",
        ),
        (
            NicSpec("0000:06:00.0", bind="vfio-pci"),
            "DPDK takes it from the kernel's driver mlx5_core, which keeps it: leave 'bind' out",
        ),
        (NicSpec("0000:04:00.0", bind="uio_pci_generic"), "a program has it open: ovs-vswitchd (77)"),
    ],
)
def test_it_cannot_be_set_up(rig: tuple[LittleKernel, Journal], nic: NicSpec, said: str) -> None:
    kernel, _ = rig
    kernel.add("0000:04:00.0", driver="vfio-pci", totalvfs=2)
    kernel.add("0000:06:00.0", "mlx5_core", driver="mlx5_core")
    kernel.open["0000:04:00.0"] = [(77, "ovs-vswitchd")]
    assert refusal(kernel, nic) == f"nics.{nic.pci}: {said}"


def test_the_driver_takes_it_not(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, journal = rig
    before = kernel.state()
    kernel.deaf.add("vfio-pci")
    with pytest.raises(TestbedError, match=rf"nics\.{NIC}\.bind: vfio-pci does not take {NIC}; without an IOMMU"):
        set_up_nics([NicSpec(NIC, bind="vfio-pci")], journal, kernel)
    journal.close()
    assert kernel.state() == before


def test_a_driver_refuses_a_setting(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, journal = rig
    before = kernel.state()
    kernel.deaf.add("trust")
    with pytest.raises(TestbedError) as caught:
        set_up_nics([NicSpec(PF, vfs=1), NicSpec(VF0, trust=True)], journal, kernel)
    assert str(caught.value) == f"nics.{VF0}.trust: the driver igb refuses True: Operation not supported"
    journal.close()
    assert kernel.state() == before


def test_a_program_that_has_it_open_is_named(
    rig: tuple[LittleKernel, Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, journal = rig
    monkeypatch.setattr("pytest_nfvperf.adapters.host.nic_binding._RELEASE_DEADLINE_S", 0.05)
    set_up_nics([NicSpec(NIC, bind="vfio-pci")], journal, kernel)
    kernel.open[NIC] = [(77, "testpmd")]
    (entry,) = journal.entries
    with pytest.raises(TestbedError, match=rf"the programs that have {NIC} open by vfio to end; last seen: testpmd"):
        give_back_driver(entry, kernel)
    assert driver_of(kernel, NIC) == "vfio-pci"


def test_what_somebody_changed_meanwhile_stays(rig: tuple[LittleKernel, Journal]) -> None:
    kernel, journal = rig
    set_up_nics([NicSpec(NIC, bind="vfio-pci"), NicSpec(PF, vfs=2)], journal, kernel)
    kernel.write(kernel.folder(NIC) / "driver/unbind", NIC)
    kernel.write(kernel.folder(NIC) / "driver_override", "e1000e")
    kernel.write(kernel.sysfs / "bus/pci/drivers_probe", NIC)
    kernel.write(kernel.folder(PF) / "sriov_numvfs", "0")
    kernel.write(kernel.folder(PF) / "sriov_numvfs", "4")
    before = kernel.state()
    journal.close()
    assert kernel.state() == before


# Killed at each step, by chance on another machine each time, and again while the reaper undoes it.


@st.composite
def set_ups(draw: st.DrawFn) -> tuple[list[NicSpec], dict[str, Any]]:
    """What a testbed file says, and what the machine was like before."""
    found = {
        "driver": draw(st.sampled_from(["igb", None, "vfio-pci"])),
        "override": draw(st.sampled_from([None, "igb", "vfio-pci"])),
        "vfs": draw(st.integers(0, 2)),
        "autoprobe": draw(st.sampled_from("01")),
    }
    nics = [NicSpec(address, bind="vfio-pci") for address in (NIC, SECOND) if draw(st.booleans())]
    number = found["vfs"]
    if number == 0:
        number = draw(st.integers(1, 3))
        nics.append(NicSpec(PF, vfs=number))
    nics += [
        NicSpec(
            f"{PF} vf {at}",
            bind=draw(st.sampled_from([None, "vfio-pci"])),
            mac=draw(st.sampled_from([None, MAC])),
            vlan=draw(st.sampled_from([None, 0, 100])),
            trust=draw(st.sampled_from([None, True])),
        )
        for at in range(number)
    ]
    return draw(st.permutations(nics)), found


def prepare(kernel: LittleKernel, found: Mapping[str, Any]) -> None:
    kernel.loadable.add("igb")
    kernel.write(kernel.folder(PF) / "sriov_drivers_autoprobe", found["autoprobe"])
    if found["vfs"]:
        kernel.write(kernel.folder(PF) / "sriov_numvfs", str(found["vfs"]))
        kernel.vfs[PF][0] |= {"mac": OTHER_MAC, "vlan": 9, "qos": 1}
    kernel.write(kernel.folder(NIC) / "driver/unbind", NIC)
    if found["driver"]:
        kernel.write(kernel.folder(NIC) / "driver_override", found["driver"])
        kernel.write(kernel.sysfs / "bus/pci/drivers_probe", NIC)
    kernel.write(kernel.folder(NIC) / "driver_override", found["override"] or "")
    kernel.written.clear()


@settings(max_examples=examples(300), deadline=None)
@given(set_up=set_ups(), dies_at=st.integers(0, 60), dies_again_at=st.integers(0, 30))
def test_a_run_killed_at_any_step_is_undone(
    set_up: tuple[list[NicSpec], dict[str, Any]], dies_at: int, dies_again_at: int
) -> None:
    nics, found = set_up
    with machine() as (kernel, journal):
        prepare(kernel, found)
        before = kernel.state()
        kernel.dies_at = dies_at
        try:
            set_up_nics(nics, journal, kernel)
        except Killed:
            pass
        else:
            bound = [nic.pci for nic in nics if nic.bind]
            assert [driver_of(kernel, address) for address in bound] == ["vfio-pci"] * len(bound)
        journaled = read_entries(journal.directory)
        assert journaled == journal.entries
        kernel.written.clear()
        kernel.dies_at = dies_again_at
        try:
            undo(journaled, kernel)
        except Killed:
            kernel.dies_at = None
            undo(journaled, kernel)
        assert kernel.state() == before
        assert not any(UNDO[entry.kind](entry, kernel) for entry in journaled), "nothing is left to undo"


def test_the_longest_set_up_killed_at_each_step() -> None:
    nics = [NicSpec(NIC, bind="vfio-pci"), NicSpec(PF, vfs=3)]
    nics += [NicSpec(f"{PF} vf {at}", bind="vfio-pci", mac=MAC, vlan=100, trust=True) for at in range(3)]
    for dies_at in range(100):
        with machine() as (kernel, journal):
            before = kernel.state()
            kernel.dies_at = dies_at
            try:
                set_up_nics(nics, journal, kernel)
            except Killed:
                kernel.dies_at = None
            else:
                assert 30 < dies_at < 60, "the property test above tries as many steps"
                return
            undo(read_entries(journal.directory), kernel)
            assert kernel.state() == before, kernel.written
    pytest.fail("it never came to its end")
