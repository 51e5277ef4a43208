"""A command that sees other files in place of some, and nobody else does."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pytest_nfvperf.adapters.process.private_mounts import with_binds
from tests.functional.ovs_support import needs_root

pytestmark = needs_root


def test_a_command_sees_what_is_bound_and_others_do_not(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_text("ours\n")
    theirs.write_text("theirs\n")
    seen = subprocess.run(
        with_binds({str(ours): str(theirs)}, ["cat", str(theirs)]), capture_output=True, text=True, check=True
    )
    assert seen.stdout == "ours\n"
    assert theirs.read_text() == "theirs\n"


def test_a_target_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        with_binds({str(tmp_path): "/no/such/target"}, ["true"]), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "No such file or directory: '/no/such/target'" in done.stderr
