"""What can be told of the guest without booting one: kernels, packages, machines, pktgen's report."""

from __future__ import annotations

import gzip
import lzma
import struct
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host import apt as private_apt
from pytest_nfvperf.adapters.host.apt import Archive
from pytest_nfvperf.adapters.machine.fingerprint import instruction_ns
from pytest_nfvperf.adapters.process import programs
from pytest_nfvperf.adapters.vnf import guest_kernel
from pytest_nfvperf.adapters.vnf import guest_kernel as tools
from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel, extract_vmlinux, prepare_kernel, read_module
from pytest_nfvperf.features.virtual_time.guest_run import (
    VIRTUAL_TIME,
    GuestMachine,
    GuestRun,
    GuestTime,
    qemu_command,
)
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from tests.kernel import other_kernels
from tests.kernel.chain_cost import ChainCost, InstructionCost, crossed_chain
from tests.kernel.inner_tests import check, results
from tests.kernel.pktgen import Sent, parse_report

KERNEL = Kernel(Path("/cache/6.1"), "6.1")
ELF = b"\x7fELF and a kernel"
REPORT = """Params: count 5000  min_pkt_size: 60  max_pkt_size: 60
Current:
     pkts-sofar: {sent}  errors: {errors}
Result: OK: 86104(c76706+d9397) usec, 5000 (60byte,0frags)
  58069pps 27Mb/sec (27873120bps) errors: 0
"""


def bzimage(payload: bytes) -> bytes:
    """A header with this payload behind two setup sectors."""
    header = bytearray(3 * 512)
    header[0x1F1] = 2
    header[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", header, 0x248, 16, len(payload))
    return bytes(header) + b"\0" * 16 + payload + b"what follows"


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress])
def test_the_kernel_is_taken_out_of_its_image(pack):
    assert extract_vmlinux(bzimage(pack(ELF) + struct.pack("<I", len(ELF)))) == ELF


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (bytes(1024), r"no Linux bzImage: b'\\x00\\x00\\x00\\x00' where 'HdrS' should be"),
        (bzimage(b"BZh91AY"), r"payload begins with b'BZh91A': neither xz, zstd nor gzip"),
        (bzimage(lzma.compress(b"no kernel")), r"payload unpacks to b'no k', not to an ELF file"),
    ],
)
def test_what_is_no_kernel_is_refused(image, message):
    with pytest.raises(TestbedError, match=message):
        extract_vmlinux(image)


def test_modules_are_read_packed_or_not(tmp_path):
    (tmp_path / "a.ko").write_bytes(ELF)
    (tmp_path / "b.ko.xz").write_bytes(lzma.compress(ELF))
    assert [read_module(tmp_path / name) for name in ("a.ko", "b.ko.xz")] == [ELF, ELF]


def test_a_missing_program_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if "qemu" in name else f"/bin/{name}")
    with pytest.raises(
        ConfigError, match=r"needs qemu-system-x86_64: apt-get install qemu-system-x86 \(or `make test-"
    ):
        tools.need("cpio", "qemu-system-x86_64")


def test_another_architecture_has_no_guest(monkeypatch):
    monkeypatch.setattr(tools.platform, "machine", lambda: "aarch64")
    with pytest.raises(ConfigError, match="an x86_64 machine, this one is aarch64"):
        tools.need("cpio")


def test_the_set_up_knows_every_package_that_a_guest_needs():
    needed = programs.install_hint("qemu-system-x86_64", "depmod", "cpio", "zstd").removeprefix("apt-get install ")
    assert {*needed.split()} == {*programs.packages([programs.Use.KERNEL], programs.DEBIAN_13)}


def test_an_apt_without_debians_kernel_is_told_what_to_do(monkeypatch, tmp_path):
    def unknown(argv, **_):
        raise TestbedError(f"{argv[0]} failed", evidence={"stderr": "E: No packages found"})

    monkeypatch.setattr(guest_kernel, "run", unknown)
    with pytest.raises(
        ConfigError, match=r"apt knows no package linux-image-amd64: .* run apt-get update(?s:.*)No packages"
    ):
        prepare_kernel(tmp_path)


def test_a_download_that_fails_leaves_no_kernel(monkeypatch, tmp_path):
    """Nor is one that a killed run left half made taken for a kernel."""
    (tmp_path / ".partial-6.0" / "boot").mkdir(parents=True)

    def offline(argv, **_):
        if argv[0] == "apt-cache":
            return "linux-image-amd64\n  Depends: linux-image-6.1-amd64\n"
        raise TestbedError("apt-get download failed", evidence={"stderr": "404  Not Found"})

    monkeypatch.setattr(guest_kernel, "run", offline)
    with pytest.raises(TestbedError, match=r"cannot download the guest's kernel: (?s:.*)run apt-get update(?s:.*)404"):
        prepare_kernel(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_releases_kernel_is_fetched_once_and_found_again(monkeypatch, tmp_path):
    """Steps: packages laid out as Debian 13's are, all below usr/. Verify: a whole kernel; the second time no apt."""
    release = "6.12.1+deb13-amd64"
    calls = []

    def fake(argv, **_):
        calls.append(argv[0])
        if argv[0] == "dpkg-deb":
            for name in (f"usr/lib/modules/{release}", "usr/bin", "boot"):
                (Path(argv[-1]) / name).mkdir(parents=True, exist_ok=True)
            (Path(argv[-1]) / f"boot/vmlinuz-{release}").write_bytes(b"packed")
        if argv[0] == "env":
            Path(argv[2], "linux.deb").touch()
        return f"linux-image-amd64\n  Depends: linux-image-{release}\n" if argv[0] == "apt-cache" else ""

    for module in (guest_kernel, private_apt, other_kernels):
        monkeypatch.setattr(module, "run", fake)
    monkeypatch.setattr(other_kernels, "debian_archive", lambda: Archive("http://archive"))
    monkeypatch.setattr(guest_kernel, "extract_vmlinux", lambda _: ELF)
    made = other_kernels.kernel_of("trixie", tmp_path)
    assert (made.release, made.directory) == (release, tmp_path / release)
    assert made.modules.is_dir()
    assert made.busybox.parent.is_dir()
    assert made.vmlinux.read_bytes() == ELF
    calls.clear()
    assert other_kernels.kernel_of("trixie", tmp_path) == made
    assert calls == []


def test_a_guest_is_told_of_hugepages_and_modules_at_boot(tmp_path):
    machine = GuestMachine(hugepages_mib=1024, autoload=False)
    command = qemu_command(machine, KERNEL, tmp_path, tmp_path, tmp_path)
    words = command[command.index("-append") + 1].split()
    assert {"hugepages=512", "sysctl.kernel.modprobe=/none"} <= {*words}


def test_a_guests_cpu_copies_by_words_and_has_a_name_of_its_own(tmp_path):
    command = qemu_command(GuestMachine(), KERNEL, tmp_path, tmp_path, tmp_path)
    given = command[command.index("-cpu") + 1].split(",")
    assert {"-erms", "-fsrm"} <= {*given}
    assert "model-id=QEMU TCG CPU without ERMS" in given  # a fact that baselines are told apart by


def test_virtual_time_is_counted_on_one_cpu():
    with pytest.raises(ConfigError, match="virtual time needs a guest of 1 CPU, not 2"):
        GuestMachine(GuestTime.VIRTUAL)


def test_only_virtual_time_says_what_an_instruction_takes(tmp_path):
    said = {}
    for machine in (GuestMachine(), VIRTUAL_TIME):
        command = qemu_command(machine, KERNEL, tmp_path / "i", tmp_path, tmp_path / "console")
        said[machine.time] = tmp_path / machine.time.name
        said[machine.time].write_text(command[command.index("-append") + 1])
        assert ("-icount" in command) == (machine.time is GuestTime.VIRTUAL)
    assert instruction_ns(said[GuestTime.VIRTUAL]) == 2
    with pytest.raises(ConfigError, match="counted in virtual time only: boot the guest with --virtual-time"):
        instruction_ns(said[GuestTime.WALL_CLOCK])


def test_a_comma_in_a_path_is_not_an_option_of_qemus(tmp_path):
    machine = GuestMachine(writable=(Path("/b,readonly=on"),))
    command = qemu_command(machine, KERNEL, tmp_path, Path("/a,readonly=on"), tmp_path)
    assert [part for part in command if "path=/a,,readonly=on," in part]
    assert [part for part in command if "path=/b,,readonly=on," in part and part.startswith("local,id=writable0,")]


def test_pktgens_report_is_read():
    assert parse_report(REPORT.format(sent=5000, errors=1)) == Sent(5000, 1, 76706)


def test_a_report_of_a_run_that_did_not_finish_is_none():
    with pytest.raises(TestbedError, match="pktgen did not finish\n--- pktgen ---\nResult: Idle"):
        parse_report("Result: Idle")


def test_instructions_are_busy_time_over_the_time_of_one():
    cost = InstructionCost(packets=5000, busy_ns=74_815_000, instruction_ns=2)
    seen = cost.figure()
    assert seen.value == pytest.approx(7481.5)
    assert (seen.metric, seen.unit) == ("instructions_per_packet", "instructions")
    assert seen.confidence == "virtual time: 74815000 ns busy, 2 ns an instruction, 5000 packets"
    with pytest.raises(ValueError, match="need packets of at least 1, not 0"):
        InstructionCost(0, 1, 2)


def test_a_chains_cost_survives_the_shared_folder():
    cost = ChainCost("system", "veth", 4, (InstructionCost(5000, 145_700_000, 2),))
    assert '"time": "virtual"' in cost.to_json()
    assert ChainCost.from_json(cost.to_json()) == cost


@pytest.mark.parametrize("link", ["patch", "veth"])
def test_a_chain_is_crossed_by_flows_both_ways(link):
    chain = crossed_chain(3, link)
    assert len(chain.crossings) == 6
    exits = {(crossing.bridge, crossing.in_port): crossing.out_port for crossing in chain.crossings}
    assert exits["ovs-1", "end0"] in chain.bridge_ports("ovs-1")
    assert exits["ovs-3", entry := next(p for p in chain.bridge_ports("ovs-3") if p != "end1")] == "end1"
    assert exits["ovs-3", "end1"] == entry


JUNIT = """<testsuites><testsuite>
<testcase classname="tests.m" name="test_a[veth]" time="0.5"/>
<testcase classname="tests.m" name="test_a[patch]" time="1.25"><failure message="assert 1 == 2">def test_a: ...
E assert 1 == 2</failure><system-err>what it wrote</system-err></testcase>
<testcase classname="tests.m" name="test_b" time="0"><skipped message="no module">b.py:3: no module</skipped></testcase>
<testcase classname="tests.m" name="test_c" time="0.1"/>
</testsuite></testsuites>
"""


def guest_run(shared: Path, status: int) -> GuestRun:
    return GuestRun(("pytest",), status, "3 lines of output", "", GuestTime.WALL_CLOCK, 3.0, 9.0, shared)


def test_a_test_of_the_guest_shows_as_it_ended_there(tmp_path):
    (tmp_path / "junit.xml").write_text(JUNIT)
    cases = results(guest_run(tmp_path, 1))
    check(cases, "tests.m", "test_c")
    with pytest.raises(
        AssertionError, match=r"(?s)passed test_a\[veth\] \(0\.5 s\)\nfailed test_a\[patch\] .*1 == 2\nwhat"
    ):
        check(cases, "tests.m", "test_a")
    with pytest.raises(AssertionError, match=r"skipped test_b \(0.0 s\)\nb.py:3: no module"):
        check(cases, "tests.m", "test_b")
    with pytest.raises(AssertionError, match=r"^in the guest:\nskipped test_b"):
        check(cases, "tests.m", "test_b", never_skipped="test_b")
    with pytest.raises(AssertionError, match="no case of system"):
        check(cases, "tests.m", "test_b", never_skipped="system")
    with pytest.raises(AssertionError, match=r"test_d did not run in the guest; these did: test_a\[veth\], test_a"):
        check(cases, "tests.m", "test_d")


@pytest.mark.parametrize(("status", "junit"), [(4, JUNIT), (0, None), (0, "<testsuites/>")])
def test_tests_that_did_not_run_are_no_result(tmp_path, status, junit):
    if junit:
        (tmp_path / "junit.xml").write_text(junit)
    with pytest.raises(TestbedError, match=r"did not run: `pytest`|no test ran in the guest: `pytest`") as caught:
        results(guest_run(tmp_path, status))
    assert "3 lines of output" in str(caught.value)
