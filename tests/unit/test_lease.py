"""The lease of a testbed: a lock on its file, which ends with the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.process.lock import holder_text, try_lease
from pytest_nfvperf.model.errors import ConfigError

HOLD = (
    "import sys; from pathlib import Path\n"
    "from pytest_nfvperf.adapters.process.lock import try_lease\n"
    "lease = try_lease(Path(sys.argv[1])); print('held', flush=True); sys.stdin.readline()\n"
)


def test_one_process_has_it_and_a_killed_one_has_it_no_more(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("")
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert try_lease(path) is None
        assert holder_text(path).startswith(f"pid {other.pid}, command ")
        assert f"{sys.executable} -c import sys; " in holder_text(path)
        other.kill()
    lease = try_lease(path)
    assert lease is not None
    assert holder_text(path).startswith(f"pid {os.getpid()}, ")
    lease.close()
    lease.close()
    assert holder_text(path) == "a process that this user cannot see"


def test_who_shares_it_keeps_others_out(tmp_path: Path) -> None:
    one, other = try_lease(tmp_path, shared=True), try_lease(tmp_path, shared=True)
    assert one is not None
    assert other is not None
    assert try_lease(tmp_path) is None
    one.close()
    other.close()


def test_a_file_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file"):
        try_lease(tmp_path / "nowhere.yaml")
