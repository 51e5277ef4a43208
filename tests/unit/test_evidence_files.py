"""Writing and reading evidence files: killed runs, full disks, several workers."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.older import upgraded
from pytest_nfvperf.adapters.evidence.reader import conclude, read_run
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter, is_being_written
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import RunResult
from pytest_nfvperf.model.evidence.records import STEPS, AttachmentData, Record, make_record
from pytest_nfvperf.model.figure import Figure, Why
from tests.sample_run import SampleRun, small_run


def note(number: int, text: str = "") -> Record:
    """A small record."""
    return make_record(
        AttachmentData("note", text=text), id=f"attachment-{number:04}", run="r", test="t", time_ns=number
    )


def write(path: Path, records: list[Record]) -> None:
    """All records into a new file."""
    writer = EvidenceWriter(path)
    for record in records:
        writer.emit(record)
    writer.close()


def test_a_whole_run_is_read_back(tmp_path: Path) -> None:
    records = small_run()
    write(tmp_path / "evidence.jsonl", records)
    run = read_run(tmp_path)
    assert run.problems == []
    assert len(run.trials) == sum(record.kind == "trial" for record in records)
    assert {v.judgement for v in run.verdicts.values()} == {"PASS", "INCONCLUSIVE"}
    assert run.run is not None
    assert run.run.testbed.discovered
    for test in run.tests.values():
        for outcome in test.outcomes.values():
            assert set(outcome.trials) <= set(test.trials)
        assert test.end is not None
    cited = [error.first_cause for error in run.errors.values()]
    assert cited == [None, "error-0001"]


def test_a_file_that_holds_a_run_is_not_written_again(tmp_path: Path) -> None:
    write(tmp_path / "evidence.jsonl", [note(1)])
    with pytest.raises(ConfigError, match="already holds the evidence of a run; choose another results directory"):
        EvidenceWriter(tmp_path / "evidence.jsonl")


def test_a_cut_off_last_line_is_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl"
    write(path, [note(1), note(2)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    run = read_run(path)
    assert run.truncated
    assert list(run.test("t").attachments) == ["attachment-0001"]
    assert "evidence.jsonl: line 2 is cut off after" in run.problems[0]
    assert "the run was killed while it wrote, or the file is not whole" in run.problems[0]
    assert "did not end by itself" in run.problems[1]


def test_of_a_run_that_ended_nobody_says_that_it_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl"
    write(path, small_run())
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"schema": 1, "kind"')
    run = read_run(path)
    assert run.ends
    (problem,) = run.problems
    assert problem.endswith("the run had ended before; whatever added to the file later did not finish")


def test_a_last_line_without_its_line_feed_is_whole(tmp_path: Path) -> None:
    """As editors and some copies leave it: the end of the run is in that line."""
    path = tmp_path / "evidence.jsonl"
    write(path, small_run())
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    run = read_run(path)
    assert (run.problems, run.truncated) == ([], False)
    assert run.ends


def test_a_line_that_is_being_written_is_no_kill(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl"
    writer = EvidenceWriter(path)
    writer.emit(note(1))
    with path.open("ab") as file:
        file.write(b'{"schema": 1, "ki')
    (problem,) = read_run(path).problems
    writer.close()
    assert problem.endswith("the run goes on and is writing it")


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl"
    path.write_text('{"schema": 3, "kind": "trial"}\n')
    with pytest.raises(
        ConfigError, match=r"evidence\.jsonl: line 1: not an evidence record of this version: trial\.id"
    ):
        read_run(path)


@pytest.mark.parametrize("version", [0, 4])
def test_another_schema_version_is_refused(tmp_path: Path, version: int) -> None:
    path = tmp_path / "evidence.jsonl"
    path.write_text(json.dumps(note(1).to_json() | {"schema": version}) + "\n")
    with pytest.raises(ConfigError, match="schema: Input should be 3") as told:
        read_run(path)
    assert (told.value.file, told.value.key) == (str(path), "line 1")


RECORDED = Path(__file__).parents[1] / "data/evidence"


@pytest.mark.parametrize("version", [1, 2])
def test_outcomes_of_earlier_versions_have_the_figures_that_they_had(version: int) -> None:
    run = read_run(RECORDED / f"version-{version}.jsonl")
    (test,) = run.tests.values()
    assert test.data.parameters == {"ways": "both", "spoiled": "no"}, "names of the user's are not ours to change"
    (soak,), (outcome,), (stream,) = (records.values() for records in (test.soaks, test.outcomes, test.streams))
    assert (soak.soak.disturbed_count, soak.soak.disturbed[0].start_s) == (1, 20.0)
    assert stream.result.directions[0].direction == "forward"
    ndr = outcome.figure("ndr", "pps")
    assert ndr is not None
    assert (ndr.value, ndr.low, ndr.high, ndr.why) == (4e6, 4e6, 4.02e6, (Why.DISTURBED,))
    assert ndr.detail == "the rig let nothing be confirmed at 5.00 Mpps"
    values = {each.metric: each.value for each in outcome.figures if each.at == "1000000 pps"}
    assert values == {"lost_frames": 7, "loss_ratio": 7 / 118e6}
    assert outcome.missing["latency_p99"] == "3 trials in a row were invalid"


def test_a_recorded_run_of_version_2_has_the_figures_of_its_verdicts() -> None:
    run = read_run(RECORDED / "version-2-run.jsonl")
    (test,), (outcome,) = run.tests.values(), run.outcomes.values()
    verdicts = {(each.metric, each.observed) for each in test.verdicts.values()}
    assert len(verdicts) == 3
    assert verdicts <= {(each.metric, each.value) for each in outcome.figures}
    assert outcome.figure("ndr", "pps") == Figure(
        *("ndr", 5240304.0, "pps", 5240304.0, 5240304.0),
        cores=1,
        evidence=("trial-0020",),
        confidence="confirmed by 1 s: 0 lost of 8,941,807: loss ratio < 3.4e-07 at 95 % (the search found 5.32 Mpps)",
    )
    assert conclude(run).exit_status == 0


def test_a_count_that_an_earlier_version_lacks_is_missing() -> None:
    lines = [json.loads(line) for line in (RECORDED / "version-2.jsonl").read_text().splitlines()]
    (outcome,) = (line for line in lines if line["kind"] == "outcome")
    outcome["data"]["loss_curve"] = [{"load_fps": 2_000_000, "loss_ratio": 0.1, "trial_id": "trial-0002"}]
    figures = upgraded(outcome)["data"]["figures"]
    assert [each["metric"] for each in figures if each["at"] == "2000000 pps"] == ["loss_ratio"]


def test_a_plateau_of_version_2_that_the_host_kept_low_is_a_lower_bound() -> None:
    lines = [json.loads(line) for line in (RECORDED / "version-2.jsonl").read_text().splitlines()]
    (outcome,) = (line for line in lines if line["kind"] == "outcome")
    plateau = {"trial_id": "trial-0001", "fps": 5e6, "low_fps": 4.9e6, "high_fps": 5.1e6, "windows": 20}
    outcome["data"]["plateaus"] = [{**plateau, "apart": "380 ns", "generator_limited": ""}]
    (figure,) = (
        each
        for each in upgraded(outcome)["data"]["figures"]
        if (each["metric"], each["unit"]) == ("forwarding_rate", "pps")
    )
    assert (figure["value"], figure["high"], figure["why"]) == (5e6, None, [Why.FAR_CPUS])


def test_a_line_of_version_2_that_lacks_a_part_is_refused(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (RECORDED / "version-2.jsonl").read_text().splitlines()]
    (number,) = (number for number, line in enumerate(lines, 1) if line["kind"] == "outcome")
    del lines[number - 1]["data"]["goals"]
    (tmp_path / "evidence.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ConfigError, match="it has no 'goals'") as told:
        read_run(tmp_path)
    assert told.value.key == f"line {number}"


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no evidence here"):
        read_run(tmp_path)


def test_files_of_several_workers_are_one_run(tmp_path: Path) -> None:
    write(tmp_path / "evidence-gw0.jsonl", SampleRun(worker="gw0").build(("phy2phy",), (64,)))
    write(tmp_path / "evidence-gw1.jsonl", SampleRun(worker="gw1", seed=2).build(("pvp",), (64,)))
    run = read_run(tmp_path)
    assert len(run.runs) == len(run.ends) == 2
    assert {o.label["topology"] for o in run.outcomes.values()} == {"phy2phy", "pvp"}
    assert "gw0-trial-0001" in run.trials
    assert "gw1-trial-0001" in run.trials


def test_who_needs_no_steps_reads_of_each_test_the_other_trials_and_the_last(tmp_path: Path) -> None:
    """What became of the run is the same."""
    write(tmp_path / "evidence.jsonl", SampleRun().build(("phy2phy", "pvp"), (64,)))
    whole, light = read_run(tmp_path), read_run(tmp_path, steps=False)
    steps = {key for key, trial in whole.trials.items() if trial.result.spec.purpose in STEPS}
    last = {list(test.trials)[-1] for test in whole.tests.values() if test.trials}
    assert steps - last
    assert set(light.trials) == set(whole.trials) - (steps - last)
    assert conclude(light) == conclude(whole)
    assert light.outcomes == whole.outcomes


def test_trials_share_what_they_have_in_common(tmp_path: Path) -> None:
    write(tmp_path / "evidence.jsonl", SampleRun().build(("phy2phy",), (64,)))
    trials = [trial.result for trial in read_run(tmp_path).trials.values()]
    assert len(trials) > 1
    assert len({id(trial.spec.traffic) for trial in trials}) == len({trial.spec.traffic for trial in trials})
    directions = [count.direction for trial in trials for count in trial.counts]
    assert len(set(map(id, directions))) == len(set(directions)) == 2


def test_what_a_lost_worker_left_of_a_test_counts_no_more_once_another_repeated_it(tmp_path: Path) -> None:
    lost = SampleRun(worker="gw0").build(("phy2phy",), (64,))
    lost = lost[: next(index for index, record in enumerate(lost) if record.kind == "test_end")]
    write(tmp_path / "evidence-gw0.jsonl", lost)
    write(tmp_path / "evidence-gw1.jsonl", SampleRun(worker="gw1").build(("phy2phy",), (64,)))
    run = read_run(tmp_path)
    node_id = lost[-1].test
    test = run.tests[node_id]
    assert test.lost_in == ("evidence-gw0.jsonl",)
    assert test.end is not None
    assert all(name.startswith("gw1-") for name in test.verdicts)
    assert "gw0-trial-0001" in run.trials, "no finished trial is lost"
    assert run.problems == [f"worker gw0 died while it ran {node_id}, which gw1 repeated"]


def test_an_id_used_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "evidence-gw0.jsonl", [note(1)])
    write(tmp_path / "evidence-gw1.jsonl", [note(1)])
    with pytest.raises(ConfigError, match=r"'attachment-0001' is used twice: evidence-gw0\.jsonl line 1 and"):
        read_run(tmp_path)


def test_two_runs_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path / "evidence-a.jsonl", [SampleRun().begin()])
    write(tmp_path / "evidence-b.jsonl", [note(1)])
    with pytest.raises(ConfigError, match="is of run 'r', the lines before of '20261121-000759'"):
        read_run(tmp_path)


KILLED = """
import os, sys
from pathlib import Path
from tests.unit.test_evidence_files import note
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter, is_being_written
writer = EvidenceWriter(Path(sys.argv[1]))
for number in range(1, 100000):
    writer.emit(note(number, "x" * 3000))
    print(number, flush=True)
"""


def test_kill_9_leaves_every_record_that_was_taken(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl"
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True, cwd=root
    ) as child:
        assert child.stdout is not None
        taken = [int(child.stdout.readline()) for _ in range(50)]
        os.kill(child.pid, signal.SIGKILL)
        taken += [int(line) for line in child.stdout if line.endswith("\n")]
    assert len(read_run(path).test("t").attachments) >= taken[-1]


def test_a_run_that_somebody_still_writes_is_running_and_not_killed(tmp_path: Path) -> None:
    records = SampleRun().build(("phy2phy",), (64,))
    begun = records[: next(index for index, record in enumerate(records) if record.kind == "test_end")]
    writer = EvidenceWriter(tmp_path / "evidence.jsonl")
    for record in begun:
        writer.emit(record)
    run = read_run(tmp_path)
    assert (run.being_written, run.problems) == (("evidence.jsonl",), [])
    assert conclude(run).result is RunResult.RUNNING
    assert conclude(run).test(begun[-1].test).reason == "it is running"
    writer.close()
    run = read_run(tmp_path)
    assert (run.being_written, len(run.problems)) == ((), 1)
    assert conclude(run).result is RunResult.KILLED
    assert conclude(run).test(begun[-1].test).reason == "it had begun when the run was killed"


FORKED = """
import os, sys, time
from pathlib import Path
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter, is_being_written
writer = EvidenceWriter(Path(sys.argv[1]))
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(60)
os._exit(0)
"""


def test_a_run_is_over_although_a_process_that_it_forked_lives_on(tmp_path: Path) -> None:
    """Such a process has the file open, and shares its lock."""
    path = tmp_path / "evidence.jsonl"
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", FORKED, str(path)], stdout=subprocess.PIPE, text=True, cwd=root
    ) as run:
        assert run.stdout is not None
        forked = int(run.stdout.readline())
        run.wait()
        try:
            assert not is_being_written(path)
        finally:
            os.kill(forked, signal.SIGKILL)


def test_a_file_system_that_knows_no_sync_takes_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refuse)
    write(tmp_path / "evidence.jsonl", small_run())
    assert read_run(tmp_path).problems == []


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a file system that can be filled")
    folder = tmp_path / "tiny"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_a_testbed_error_and_leaves_no_half_line(tiny_disk: Path) -> None:
    path = tiny_disk / "evidence.jsonl"
    writer = EvidenceWriter(path)
    writer.emit(note(1))
    with pytest.raises(
        TestbedError, match=r"evidence\.jsonl cannot take record attachment-0002: No space left"
    ) as caught:
        writer.emit(note(2, "x" * 200_000))
    assert "Free space under" in str(caught.value)
    assert "--nfv-results" in str(caught.value)
    run = read_run(path)
    assert not run.truncated
    assert list(run.test("t").attachments) == ["attachment-0001"]
    writer.emit(note(3))  # there is room for a small record still: it must be in its own line
    writer.close()
    assert list(read_run(path).test("t").attachments) == ["attachment-0001", "attachment-0003"]


def test_a_place_that_cannot_be_written_is_a_testbed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TestbedError, match=r"evidence\.jsonl cannot be opened: .*--nfv-results"):
        EvidenceWriter(tmp_path / "file" / "evidence.jsonl")
