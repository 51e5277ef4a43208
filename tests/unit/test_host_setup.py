"""Hugepages, packages and the set-up command on made-up machines."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import pytest_nfvperf
from pytest_nfvperf.adapters.host import setup
from pytest_nfvperf.adapters.host import setup as packages
from pytest_nfvperf.adapters.host.hugepages import HostChange, Hugepages, Pool, plan, read_hugepages, reserve
from pytest_nfvperf.adapters.host.setup import SetupError, enabled_services, read_distribution, services_held
from pytest_nfvperf.adapters.process import programs


def pool(tmp_path: Path, total: int, free: int, reserved: int = 0, kib: int = 2048) -> Path:
    directory = tmp_path / f"hugepages-{kib}kB"
    directory.mkdir(parents=True)
    for name, value in (("nr", total), ("free", free), ("resv", reserved)):
        (directory / f"{name}_hugepages").write_text(f"{value}\n")
    return tmp_path


def test_reserved_by_others_is_not_free(tmp_path: Path) -> None:
    assert read_hugepages(pool(tmp_path, 100, 60, 50)) == Hugepages((Pool(2, 100, 10),))
    assert read_hugepages(tmp_path).free_mib == 20


def test_a_kernel_without_hugepages_says_so(tmp_path: Path) -> None:
    assert not read_hugepages(tmp_path).pools
    assert not read_hugepages(tmp_path / "absent").pools
    with pytest.raises(OSError, match="this kernel has no hugepages"):
        reserve(64, tmp_path)
    change = plan(64, tmp_path)
    assert change is not None
    assert "this kernel has no hugepages" in change.what


def test_a_host_of_1_gib_pages_uses_them(tmp_path: Path) -> None:
    """8 x 1 GiB at boot, and no page of 2 MiB, as hosts of DPDK are set up."""
    pool(tmp_path, 0, 0)
    pages = read_hugepages(pool(tmp_path, 8, 3, kib=1 << 20))
    assert str(pages) == "3072 of 8192 MiB free in pages of 1 GiB"
    assert (pages.taken_by(256), pages.taken_by(1025), pages.taken_by(4096)) == (1024, 2048, 0)
    assert (pages.rooms(512, 256), pages.rooms(512), pages.idle().rooms(512, 256, 128, 128)) == (1, 3, 2)
    assert pages.advice(512, 256) == (
        "echo 7 > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages (7 GiB in pages of 1 GiB)"
    )
    assert plan(4096, tmp_path) is None, "there are 8 GiB"
    assert reserve(9000, tmp_path) == HostChange(
        "reserve 9 hugepages of 1 GiB (/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages: 8 -> 9)",
        ("echo", "9", ">", "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"),
    )
    assert (tmp_path / "hugepages-1048576kB/nr_hugepages").read_text() == "9"
    assert (tmp_path / "hugepages-2048kB/nr_hugepages").read_text() == "0\n"


def test_small_pages_go_first_where_there_are_both(tmp_path: Path) -> None:
    pool(tmp_path, 200, 200)
    pool(tmp_path, 5, 5, kib=64)
    pages = read_hugepages(pool(tmp_path, 2, 2, kib=1 << 20))
    assert [one.page_mib for one in pages.pools] == [2, 1024]
    assert str(pages) == "2448 of 2448 MiB free in pages of 2 MiB and 1 GiB"
    assert (pages.taken_by(256), pages.taken_by(401)) == (256, 1024)
    assert pages.rooms(256) == 3, "one of small pages, two of large ones"
    assert pages.advice(512).startswith("echo 256 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages (512 MiB")


def test_a_pool_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (pool(tmp_path, 1, 1) / "hugepages-2048kB/free_hugepages").unlink()
    assert read_hugepages(tmp_path) == Hugepages()


def test_reserving_says_what_it_changes_and_the_second_time_nothing(tmp_path: Path) -> None:
    pools = pool(tmp_path, 10, 10)
    assert plan(65, pools) == reserve(65, pools)
    assert (pools / "hugepages-2048kB" / "nr_hugepages").read_text() == "33"
    assert plan(65, pools) is None
    assert reserve(65, pools) is None


def test_the_change_can_be_made_by_hand(tmp_path: Path) -> None:
    change = plan(2048, pool(tmp_path, 0, 0))
    assert change is not None
    assert (
        change.what
        == "reserve 1024 hugepages of 2 MiB (/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages: 0 -> 1024)"
    )
    assert change.command == ("echo", "1024", ">", "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")


def test_a_kernel_that_gives_fewer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = pool(tmp_path, 10, 10)
    monkeypatch.setattr(Path, "write_text", lambda *_: 0)
    with pytest.raises(OSError, match="asked for 512 hugepages of 2 MiB, the kernel could give 10"):
        reserve(1024, pools)


def os_release(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "os-release"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "name", "tried"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "Debian 12", True),
        ('ID=debian\nVERSION_ID="13"\n', "Debian 13", True),
        ('NAME="Ubuntu"\n\nID=ubuntu\nVERSION_ID="24.04"\n', "Ubuntu 24.04 (with universe)", False),
    ],
)
def test_distributions_are_known_by_os_release(tmp_path: Path, text: str, name: str, tried: bool) -> None:
    assert read_distribution(os_release(tmp_path, text)) == (name, tried)
    here = programs.system(os_release(tmp_path, text))
    assert {"openvswitch-switch-dpdk", "iperf3", "ethtool"} <= set(programs.packages(packages.SETUP_USES, here))


def test_an_unknown_distribution_gets_the_list(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"for fedora 41 are not known .*openvswitch-switch-dpdk.*--no-packages"):
        read_distribution(os_release(tmp_path, "ID=fedora\nVERSION_ID=41\n"))


def test_services_are_held_and_what_stood_there_is_put_back(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("theirs")
    with services_held(policy):
        assert subprocess.run([policy], check=False).returncode == 101
    assert policy.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [policy]


def test_without_a_policy_none_is_left(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with pytest.raises(ZeroDivisionError), services_held(policy):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("theirs", ["theirs", None])
def test_a_killed_installation_is_mended_by_the_next(tmp_path: Path, theirs: str | None) -> None:
    policy = tmp_path / "policy-rc.d"
    code = (
        "import os, sys; from pathlib import Path\n"
        "from pytest_nfvperf.adapters.host.setup import services_held\n"
        "with services_held(Path(sys.argv[1])): os.kill(os.getpid(), 9)\n"
    )
    if theirs is not None:
        policy.write_text(theirs)
    subprocess.run([sys.executable, "-c", code, str(policy)], check=False)
    assert "nfvperf" in policy.read_text()
    with services_held(policy):
        pass
    assert (policy.read_text() if policy.exists() else None) == theirs


def test_what_starts_at_boot_is_read_from_units_and_scripts(tmp_path: Path) -> None:
    (tmp_path / "units" / "multi-user.target.wants").mkdir(parents=True)
    (tmp_path / "units" / "multi-user.target.wants" / "frr.service").symlink_to("/nowhere")
    (tmp_path / "rc2.d").mkdir()
    (tmp_path / "rc2.d" / "S01bird").symlink_to("/nowhere")
    (tmp_path / "rc2.d" / "K01stopped").symlink_to("/nowhere")
    assert enabled_services(tmp_path / "units", tmp_path) == {"frr.service", "bird"}


def test_units_are_disabled_where_systemd_is_not_installed(tmp_path: Path) -> None:
    for folder in ("multi-user.target.wants", "sockets.target.requires"):
        (tmp_path / folder).mkdir()
        for name in ("frr.service", "ssh.service"):
            (tmp_path / folder / name).symlink_to("/nowhere")
    packages.unlink_units(["frr.service"], tmp_path)
    assert enabled_services(tmp_path, tmp_path) == {"ssh.service"}


class Machine:
    """Stands in for apt and the kernel; remembers what was asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, absent: Sequence[str]) -> None:
        self.absent = list(absent)
        self.commands: list[tuple[str, ...]] = []
        self.enabled = frozenset({"ssh.service"})
        monkeypatch.setattr(packages, "missing", lambda names: tuple(n for n in names if n in self.absent))
        monkeypatch.setattr(packages, "_apt", self.apt)
        monkeypatch.setattr(packages, "_quietly", self.quietly)
        monkeypatch.setattr(packages, "enabled_services", lambda: self.enabled)
        monkeypatch.setattr(packages.shutil, "which", lambda name: f"/bin/{name}")  # systemd is there

    def apt(self, *command: str) -> None:
        self.commands.append(command)
        if command[1] == "install":
            self.absent.clear()
            self.enabled |= {"openvswitch-switch.service", "openvswitch-switch"}

    def quietly(self, *command: str) -> None:
        self.commands.append(command)
        self.enabled -= {command[-1], command[1]}


def test_installing_updates_first_and_disables_only_what_is_new(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, ["openvswitch-switch-dpdk"])
    monkeypatch.setattr(packages, "services_held", lambda: services_held(tmp_path / "policy"))
    done = packages.install(["gcc", "openvswitch-switch-dpdk"])
    assert machine.commands == [
        ("apt-get", "update"),
        ("apt-get", "install", "-y", "--no-install-recommends", "openvswitch-switch-dpdk"),
        ("systemctl", "disable", "--quiet", "openvswitch-switch.service"),
        ("update-rc.d", "openvswitch-switch", "disable"),
    ]
    assert done == (
        "installed openvswitch-switch-dpdk",
        "left disabled: openvswitch-switch.service, openvswitch-switch",
    )
    assert machine.enabled == {"ssh.service"}


def test_with_everything_there_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, [])
    assert packages.install(["gcc"]) == ()
    assert machine.commands == []


def test_the_command_says_what_it_will_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    change = HostChange("reserve 5 hugepages", ("echo", "5", ">", "/sys/nr_hugepages"))
    monkeypatch.setattr(setup, "plan", lambda mib: change)
    assert setup.main(["--plan", "--no-packages"]) == 0
    printed = capsys.readouterr().out
    assert "about to change on this machine:\n  - reserve 5 hugepages\n" in printed
    assert "by hand: echo 5 > /sys/nr_hugepages" in printed
    assert "done:" not in printed


def test_qemu_is_for_the_kernel_tests_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Machine(monkeypatch, ["qemu-system-x86"])
    monkeypatch.setattr(setup, "plan", lambda mib: None)
    assert setup.main(["--plan"]) == 0
    assert "nothing to change" in capsys.readouterr().out
    assert setup.main(["--plan", "--kernel-tests"]) == 0
    assert "install qemu-system-x86 (services neither started nor enabled)" in capsys.readouterr().out


def test_the_second_time_it_says_that_there_is_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "plan", lambda mib: None)
    assert setup.main(["--no-packages"]) == 0
    assert capsys.readouterr().out == "nothing to change: packages and hugepages are as needed\n"


def test_without_root_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(setup, "plan", lambda mib: HostChange("x", ("y",)))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert setup.main(["--no-packages"]) == 1
    assert "needs root: run it with sudo" in capsys.readouterr().err


def test_hugepages_that_cannot_be_had_do_not_stop_the_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(mib: int) -> HostChange:
        raise OSError("asked for 512, could give 3")

    monkeypatch.setattr(setup, "plan", lambda mib: HostChange("x", ("y",)))
    monkeypatch.setattr(setup, "reserve", refuse)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert setup.apply(packages=False) == ("hugepages: asked for 512, could give 3",)


def test_the_set_up_needs_the_standard_library_only() -> None:
    """It runs under a system Python before any pip install."""
    root = Path(pytest_nfvperf.__file__).parents[1]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import pytest_nfvperf.adapters.host.setup\n"
        "known = {*sys.stdlib_module_names, 'pytest_nfvperf', '__main__'}\n"
        "print([name for name in sys.modules if name.split('.')[0] not in known])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(root)], capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(done.stdout) == []
