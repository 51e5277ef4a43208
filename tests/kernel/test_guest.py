"""The guest itself: what a command sees in it, how it ends, and that nothing stays."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.machine.reaper import reap
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.virtual_time.guest_run import VIRTUAL_TIME, GuestMachine, run_in_guest
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from tests.functional.ovs_support import leftovers, processes_tagged, run_base, until

pytestmark = pytest.mark.kernel
DAILY = pytest.mark.daily("a boot of its own, for what a user sees if a guest fails")

# what a datapath suite may want from this kernel; conntrack comes with openvswitch
MODULES = (
    "openvswitch", "veth", "tun", "bridge", "geneve", "vxlan", "ip_gre", "vport_geneve", "vport_vxlan", "vport_gre",
    "vrf", "dummy", "8021q", "sch_netem", "pktgen", "act_ct", "mpls_router", "vhost_net",
)  # fmt: skip
# a string of the shell's, because it is the guest's script: what the command sees, one fact a line
FACTS = """
uname -r; pwd; id -u; cat "$0"; ls /dev/net/tun; cut -d ' ' -f 1 /proc/modules | sort | tr '\\n' ' '
echo for the reader >&2; echo written in the guest >"$0.guest"; echo result >/guest/result; exit 7
"""

COUNTED = """
import time
for _ in range(3):
    began = time.monotonic_ns()
    for _ in range(20000):
        pass
    print(time.monotonic_ns() - began)
"""


def test_a_command_sees_this_machines_files_and_debians_kernel(
    journal: Journal, kernel: Kernel, tmp_path: Path
) -> None:
    note = tmp_path / "a note"
    note.write_text("from the host\n")
    shared = tmp_path / "shared, with a comma"
    shared.mkdir()
    stream = io.StringIO()
    run = run_in_guest(
        journal, kernel, ["sh", "-c", FACTS, str(note)], shared, machine=GuestMachine(modules=MODULES), stream=stream
    )
    assert run.status == 7, run
    release, directory, user, said, tun, modules = run.stdout.splitlines()
    assert (release, directory, user, said, tun) == (kernel.release, "/", "0", "from the host", "/dev/net/tun")
    assert set(modules.split()) >= {*MODULES, "nf_conntrack"}
    assert run.stderr == "for the reader\n"
    assert "from the host\n" in stream.getvalue()
    assert "for the reader\n" in stream.getvalue()
    assert (shared / "result").read_text() == "result\n"
    assert not Path(f"{note}.guest").exists(), "what the guest writes must not reach the host"
    assert str(run).startswith("`sh -c ")
    assert "exited with status 7 in the guest (wall clock)\n--- stdout ---\n" in str(run)


@DAILY
def test_a_command_that_does_not_end_is_given_up_with_what_it_said(
    journal: Journal, kernel: Kernel, tmp_path: Path
) -> None:
    with pytest.raises(DeadlineError) as caught:
        run_in_guest(journal, kernel, ["sh", "-c", "echo begun; sleep 600"], tmp_path, deadline_s=1)
    assert "waited 1 s for `sh -c 'echo begun; sleep 600'` to end in the guest; QEMU (pid " in caught.value.message
    assert caught.value.evidence["stdout"] == "begun"
    assert processes_tagged(journal.tag) == []


@DAILY
def test_a_guest_that_does_not_boot_is_given_up(journal: Journal, kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(DeadlineError, match=r"^waited 0.2 s for the guest to boot; QEMU \(pid \d+\) still ran"):
        run_in_guest(journal, kernel, ["true"], tmp_path, boot_deadline_s=0.2)
    assert processes_tagged(journal.tag) == []


@DAILY
def test_a_panic_is_shown(journal: Journal, kernel: Kernel, tmp_path: Path) -> None:
    panic = ["sh", "-c", "echo 7 >/proc/sys/kernel/printk; echo c >/proc/sysrq-trigger"]
    with pytest.raises(
        TestbedError, match=r"the guest ended without the status of `sh -c .*; QEMU exited with"
    ) as caught:
        run_in_guest(journal, kernel, panic, tmp_path)
    assert "Kernel panic - not syncing: sysrq triggered crash" in caught.value.evidence["console"]


@DAILY
def test_a_module_that_the_kernel_lacks_is_named(journal: Journal, kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="the guest ended without the status of `true`") as caught:
        run_in_guest(journal, kernel, ["true"], tmp_path, machine=GuestMachine(modules=("veth", "no_such_module")))
    assert "Module no_such_module not found" in caught.value.evidence["stderr"]


def test_a_guest_whose_run_is_killed_goes_with_it(kernel: Kernel, tmp_path: Path) -> None:
    with run_base() as base:
        command = [sys.executable, "-m", "tests.kernel", "--shared", str(tmp_path), "--", "sleep", "600"]
        with subprocess.Popen(
            command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NFVPERF_RUN_DIR": str(base)}
        ) as parent:
            assert until((tmp_path / "started").exists, 60)
            (run,) = [path for path in base.iterdir() if path.is_dir()]
            (qemu,) = processes_tagged(run.name)
            parent.kill()
        assert until(lambda: not qemu.alive())
        assert reap(base).failed == ()
        assert leftovers(run.name) == []
        assert not run.exists()


@DAILY
def test_virtual_time_counts_instructions_and_skips_idle(journal: Journal, kernel: Kernel, tmp_path: Path) -> None:
    command = ["sh", "-c", 'sleep 600; exec python3 -S -c "$0"', COUNTED]
    run = run_in_guest(journal, kernel, command, tmp_path, machine=VIRTUAL_TIME, deadline_s=90)
    assert run.status == 0, str(run)
    _, *samples = map(int, run.stdout.split())
    assert max(samples) <= 1.02 * min(samples), "the same instructions take the same virtual time"
    assert "virtual time" in str(run)
