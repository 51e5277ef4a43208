"""Journal and reaper on the real machine: what a killed run leaves is removed, and only that."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nfvperf.adapters.machine.reaper import kill_rest, open_journal, reap
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.process.journal import (
    JOURNAL_FILE,
    OWNER_FILE,
    TAG_VARIABLE,
    Entry,
    Kind,
    ProcessId,
    note_process,
    read_entries,
    start_ticks,
)
from pytest_nfvperf.adapters.process.process import spawn
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from tests.examples import examples
from tests.functional.ovs_support import leftovers, needs_hugepages, needs_root, run_base, until

MORE = pytest.mark.thorough("another moment")

CHILD = """
import sys
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal
from tests.functional.ovs_support import phy2phy, started
journal = open_journal(Path(sys.argv[1]))
print(journal.tag, flush=True)
for round in range(100):
    with started(journal, sys.argv[2]) as ovs:
        ovs.build(phy2phy())
        print("built", flush=True)
"""


def start_child(base: Path, datapath: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD, str(base), datapath], stdout=subprocess.PIPE, text=True)


def killed_child(base: Path, datapath: str, after_s: float) -> str:
    """Run a child that makes and removes instances, SIGKILL it after so long, and return its tag."""
    with start_child(base, datapath) as child:
        assert child.stdout is not None
        tag = child.stdout.readline().strip()
        time.sleep(after_s)  # the moment of the kill is what is tried, not a readiness
        child.kill()
    return tag


@needs_root
@pytest.mark.parametrize("moment", [0, *(pytest.param(number, marks=MORE) for number in range(1, 8))])
def test_a_run_killed_at_any_moment_is_reaped_whole(moment: int) -> None:
    with run_base() as base:
        tag = killed_child(base, "netdev", random.Random(moment).uniform(0, 0.6))
        reaped = reap(base)
        assert reaped.failed == ()
        assert not until(lambda: leftovers(tag), deadline_s=0.2), "nothing is there, and nothing comes late"
        assert [path.name for path in base.iterdir()] == ["reap.lock"]
        assert reap(base).removed == ()


@needs_root
@needs_hugepages
@pytest.mark.parametrize("after_s", [pytest.param(0.15, marks=MORE), 0.35, pytest.param(1.0, marks=MORE)])
def test_a_dpdk_run_killed_gives_its_hugepages_back(after_s: float) -> None:
    with run_base() as base:
        tag = killed_child(base, "dpdk", after_s)
        assert reap(base).failed == ()
        assert leftovers(tag) == []
        assert not list(Path("/dev/hugepages").glob(f"*{tag}*"))
        assert not list(Path("/var/run/dpdk").glob(f"*{tag}*"))


@needs_root
def test_a_live_run_is_left_alone() -> None:
    with run_base() as base, start_child(base, "netdev") as child:
        assert child.stdout is not None
        tag = child.stdout.readline().strip()
        assert child.stdout.readline() == "built\n"
        reaped = reap(base)
        assert reaped.removed == ()
        assert len(reaped.left_alone) == 1
        assert f"run {tag} of pid {child.pid}" in reaped.left_alone[0]
        assert child.poll() is None
        assert leftovers(tag)
        child.kill()
        child.wait()
        assert f"run directory {base / tag}" in reap(base).removed
        assert leftovers(tag) == []


def dead_owner(base: Path, tag: str, **changes: object) -> Path:
    """A run directory whose owner lived with our pid, but is not us."""
    directory = base / tag
    directory.mkdir()
    own = ProcessId.own()
    owner = {"pid": own.pid, "start_ticks": own.start_ticks, "boot_id": boot(), "command": "x", **changes}
    (directory / OWNER_FILE).write_text(json.dumps(owner))
    return directory


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize("changes", [{"start_ticks": 1}, {"pid": 2**22 - 1}, {"boot_id": "another"}])
def test_an_owner_is_dead_by_pid_start_time_or_boot(tmp_path: Path, changes: dict[str, object]) -> None:
    directory = dead_owner(tmp_path, "deadxx", **changes)
    assert reap(tmp_path).removed == (f"run directory {directory}",)


def test_the_same_process_is_alive(tmp_path: Path) -> None:
    directory = dead_owner(tmp_path, "livexx")
    assert reap(tmp_path).removed == ()
    assert directory.exists()


def test_a_noted_pid_that_is_another_process_now_is_not_killed(tmp_path: Path) -> None:
    directory = dead_owner(tmp_path, "reused", start_ticks=1)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        ticks = start_ticks(bystander.pid)
        assert ticks is not None
        details = {"pid": bystander.pid, "start_ticks": ticks - 1}
        note = {"op": "note", "id": 1, "kind": "process", "name": "gone", "details": details}
        (directory / JOURNAL_FILE).write_text(json.dumps(note) + "\n")
        assert reap(tmp_path).failed == ()
        assert bystander.poll() is None
        bystander.kill()


def test_after_a_reboot_only_files_are_removed(tmp_path: Path) -> None:
    directory = dead_owner(tmp_path, "rebootd", boot_id="another")
    outside = tmp_path / "outside"
    outside.write_text("x")
    with subprocess.Popen(["sleep", "60"]) as bystander:
        details = {"pid": bystander.pid, "start_ticks": start_ticks(bystander.pid)}
        notes = [
            {"op": "note", "id": 1, "kind": "process", "name": "x", "details": details},
            {"op": "note", "id": 2, "kind": "file", "name": str(outside), "details": {}},
        ]
        (directory / JOURNAL_FILE).write_text("".join(json.dumps(note) + "\n" for note in notes))
        assert reap(tmp_path).removed == (f"file {outside}", f"run directory {directory}")
        assert bystander.poll() is None
        bystander.kill()


def test_what_cannot_be_removed_is_named_and_tried_again(tmp_path: Path) -> None:
    directory = dead_owner(tmp_path, "stuckx", start_ticks=1)
    stuck = tmp_path / "a-directory"
    stuck.mkdir()
    note = {"op": "note", "id": 1, "kind": "file", "name": str(stuck), "details": {}}
    (directory / JOURNAL_FILE).write_text(json.dumps(note) + "\n")
    reaped = reap(tmp_path)
    assert [what for what, _ in reaped.failed] == [f"file {stuck}"]
    assert f"could not remove file {stuck}: " in str(reaped)
    assert directory.exists()
    stuck.rmdir()
    assert reap(tmp_path).removed == (f"run directory {directory}",)


def test_where_no_run_ever_was_there_is_nothing_to_clean(tmp_path: Path) -> None:
    assert str(reap(tmp_path / "never")) == "nothing to clean"
    assert list(tmp_path.iterdir()) == []


def test_a_directory_elsewhere_goes_with_its_files_and_one_that_was_never_made_is_no_failure(tmp_path: Path) -> None:
    base, made, never = tmp_path / "base", tmp_path / "made", tmp_path / "never"
    base.mkdir()
    made.mkdir()
    (made / "file").touch()
    directory = dead_owner(base, "folder", start_ticks=1)
    notes = [
        {"op": "note", "id": number, "kind": "directory", "name": str(path), "details": {}}
        for number, path in enumerate((made, never), 1)
    ]
    (directory / JOURNAL_FILE).write_text("".join(json.dumps(note) + "\n" for note in notes))
    reaped = reap(base)
    assert (reaped.removed, reaped.failed) == ((f"directory {made}", f"run directory {directory}"), ())
    assert not made.exists()


def test_a_directory_of_unknown_owner_is_not_ours_to_remove(tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    reaped = reap(tmp_path)
    assert (tmp_path / "foreign").exists()
    assert "no readable owner.json" in reaped.left_alone[0]


def test_a_run_directory_half_made_by_a_dead_process_is_removed(tmp_path: Path) -> None:
    own = ProcessId.own()
    dead = tmp_path / f".new-abcdef-{own.pid}-{own.start_ticks - 1}"
    live = tmp_path / f".new-ghijkl-{own.pid}-{own.start_ticks}"
    dead.mkdir()
    live.mkdir()
    reap(tmp_path)
    assert (dead.exists(), live.exists()) == (False, True)


def test_a_kept_run_stays_until_it_is_asked_for(tmp_path: Path) -> None:
    directory = dead_owner(tmp_path, "keptxx", start_ticks=1)
    (directory / "kept").touch()
    reaped = reap(tmp_path)
    assert directory.exists()
    assert reaped.left_alone == (f"{directory} (kept on purpose)",)
    assert reap(tmp_path, also_kept=True).removed == (f"run directory {directory}",)


@needs_root
def test_a_process_spawned_but_not_yet_noted_is_found_by_its_tag(tmp_path: Path) -> None:
    directory = dead_owner(tmp_path, "tagged", start_ticks=1)
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "NFVPERF_TAG": "tagged"}) as orphan:
        assert until(lambda: b"NFVPERF_TAG=tagged" in Path(f"/proc/{orphan.pid}/environ").read_bytes())
        assert f"process {orphan.pid} (sleep 60)" in reap(tmp_path).removed
        assert orphan.wait(5) == -signal.SIGKILL
    assert not directory.exists()


@needs_root
def test_a_child_forked_but_not_yet_its_command_is_found_by_the_journal_it_holds(tmp_path: Path) -> None:
    """And who only reads the journal is not taken for one."""
    directory = dead_owner(tmp_path, "forked", start_ticks=1)
    journal = directory / JOURNAL_FILE
    code = "import sys, time; held = open(sys.argv[1], sys.argv[2]); print(1, flush=True); time.sleep(60)"
    journal.touch()
    with (
        subprocess.Popen([sys.executable, "-c", code, journal, "a"], stdout=subprocess.PIPE) as writer,
        subprocess.Popen([sys.executable, "-c", code, journal, "r"], stdout=subprocess.PIPE) as reader,
    ):
        for process in (writer, reader):
            assert process.stdout is not None
            process.stdout.readline()
        assert reap(tmp_path).failed == ()
        assert writer.wait(5) == -signal.SIGKILL
        assert reader.poll() is None
        reader.kill()


@needs_root
def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    """Even before anybody reaps."""
    code = (
        "import sys, time; from pathlib import Path\n"
        "from pytest_nfvperf.adapters.machine.reaper import open_journal\n"
        "from pytest_nfvperf.adapters.process.process import spawn\n"
        "journal = open_journal(Path(sys.argv[1]))\n"
        "child = spawn(journal, 'sleep', ['sleep', '60'], log=journal.directory / 'log')\n"
        "print(child.pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        # PDEATHSIG is set once setpriv has replaced itself by the command.
        assert until(lambda: Path(f"/proc/{pid}/comm").read_text().strip() == "sleep")
        parent.kill()
        assert until(lambda: start_ticks(pid) is None)
    reap(tmp_path)


@needs_root
def test_closing_removes_what_was_forgotten_to_be_closed() -> None:
    with run_base() as base:
        journal = open_journal(base)
        namespace = LiveNamespace(journal, "left")
        process = spawn(journal, "sleep", ["sleep", "60"], log=journal.directory / "log", netns=namespace.name)
        assert until(lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink())
        journal.close()
        assert process.popen.wait(5) == -signal.SIGKILL
        assert not namespace.path.exists()
        assert list(base.iterdir()) == []
        journal.close()


@needs_root
@pytest.mark.parametrize("gentle", [True, False])
def test_what_a_noted_process_started_is_killed_unless_that_is_to_end_by_itself(gentle: bool) -> None:
    """Its session is left alone then, as is that of a client which has a server's ports to release."""
    with run_base() as base:
        journal = open_journal(base)
        entry = journal.note(Kind.PROCESS, "client", **({"gentle": True} if gentle else {}))
        environment = {**os.environ, TAG_VARIABLE: journal.tag}
        command = ["sh", "-c", "sleep 60 & echo $!; wait"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True) as client:
            note_process(journal, entry, client.pid)
            assert client.stdout is not None
            pid = int(client.stdout.readline())
            started = ProcessId(pid, start_ticks(pid) or 0)
            try:
                kill_rest(journal)
                assert started.alive() == gentle
            finally:
                os.killpg(client.pid, signal.SIGKILL)
        journal.close()


@needs_root
def test_a_process_that_ends_early_is_reported_with_its_log() -> None:
    with run_base() as base:
        journal = open_journal(base)
        process = spawn(journal, "ls", ["ls", "/no/such/place"], log=journal.directory / "ls.log")
        process.popen.wait(5)
        with pytest.raises(TestbedError, match=r"ls \(pid \d+\) exited with status 2") as caught:
            process.check()
        assert "/no/such/place" in caught.value.evidence["ls.log"]
        process.stop()
        journal.close()


@needs_root
def test_a_process_that_ignores_sigterm_is_killed_after_the_deadline() -> None:
    with run_base() as base:
        journal = open_journal(base)
        code = (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
        )
        process = spawn(journal, "stubborn", [sys.executable, "-c", code], log=journal.directory / "l", pipes=True)
        assert process.popen.stdout is not None
        assert process.popen.stdout.readline() == b"1\n"
        process.stop(deadline_s=0.1)
        assert process.popen.returncode == -signal.SIGKILL
        assert journal.entries == ()
        journal.close()


def test_a_base_that_cannot_be_made_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot make the run directory .*NFVPERF_RUN_DIR"):
        open_journal(tmp_path / "file" / "below")


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
OPERATIONS = st.lists(st.tuples(st.sampled_from(Kind), NAMES, st.booleans()), max_size=20)


@settings(max_examples=examples(40), deadline=None)
@given(operations=OPERATIONS, torn=st.integers(0, 200))
def test_a_torn_journal_reads_as_what_was_whole(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[Kind, str, bool]], torn: int
) -> None:
    """Steps: note and forget, cut the file anywhere in its last bytes. Verify: every whole line counts."""
    journal = open_journal(tmp_path_factory.mktemp("journal"))
    states: list[tuple[Entry, ...]] = [()]
    for kind, name, forget in operations:
        entry = journal.note(kind, name)
        states.append(journal.entries)
        if forget:
            journal.forget(entry)
            states.append(journal.entries)
    os.close(journal._fd)
    path = journal.directory / JOURNAL_FILE
    assert read_entries(journal.directory) == states[-1]
    whole = path.read_bytes()
    cut = whole[: max(0, len(whole) - torn)]
    path.write_bytes(cut)
    assert read_entries(journal.directory) == states[cut.count(b"\n") + _is_whole(cut)]


def _is_whole(cut: bytes) -> int:
    """1 when only the newline of the last line was cut off."""
    last = cut.rpartition(b"\n")[2]
    try:
        json.loads(last)
    except ValueError:
        return 0
    return 1


ELSEWHERE = """
import sys
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.process.journal import ProcessId
journal = open_journal(Path(sys.argv[1]))
print(journal.tag, ProcessId.own().pid, flush=True)
sys.stdin.read()
"""


@needs_root
def test_a_run_in_another_pid_namespace_is_alive_as_long_as_it_runs(tmp_path: Path) -> None:
    """Steps: in a pid namespace, as of a container that shares /run/nfvperf, begin a run; reap here; kill it; reap.

    Verify: its pid, which here is somebody else's or nobody's, does not make it dead; its end does.
    """
    own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = [*own, sys.executable, "-c", ELSEWHERE, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        tag, pid = other.stdout.readline().split()
        assert int(pid) < 10
        seen = reap(tmp_path)
        assert seen.removed == ()
        assert seen.left_alone[0].startswith(f"run {tag} of pid {pid} ")
        assert (tmp_path / tag).is_dir()
        other.kill()
    assert until(lambda: reap(tmp_path).removed == (f"run directory {tmp_path / tag}",))
