"""Namespaces whose names another mount hides, as the first ``ip netns add`` of a machine does to older ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.ovs_support import needs_root

pytestmark = needs_root

SITUATION = """
import subprocess, sys
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal, reap, remove_entries
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace

def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

def mounted(name):
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"/run/netns/{name} " in line]

how, base = sys.argv[1:]
run("mount", "-t", "tmpfs", "none", "/run/netns")  # the host's names are none of this test's
journal = open_journal(Path(base))
ours, kept = LiveNamespace(journal, "ours"), LiveNamespace(journal, "kept")
run("mount", how, "/run/netns", "/run/netns")
run("mount", "--make-shared", "/run/netns")
run("ip", "netns", "add", "theirs")
before = mounted("theirs")
assert len(mounted(ours.name)) == (2 if how == "--rbind" else 1)
assert ours.is_there()

ours.close()
assert mounted(ours.name) == [] and not ours.path.exists()
left = remove_entries(journal.entries)
assert left == [], left
assert mounted(kept.name) == [] and not kept.path.exists()

assert len(mounted("theirs")) == len(before) == 1, Path("/proc/self/mountinfo").read_text()
run("ip", "netns", "exec", "theirs", "true")
run("ip", "netns", "delete", "theirs")
journal.close()
print("all removed")
"""


@pytest.mark.parametrize("how", ["--bind", "--rbind"])
def test_names_below_a_mount_of_the_folder_are_removed(how: str, tmp_path: Path) -> None:
    """Steps: in a mount namespace of its own make two namespaces, mount the folder over itself, make somebody else's.

    Verify: closing and reaping remove ours, and theirs is as it was.
    """
    argv = ["unshare", "--mount", "--propagation=private", sys.executable, "-c", SITUATION, how, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path.cwd())
    assert (done.returncode, done.stdout) == (0, "all removed\n"), done.stderr
