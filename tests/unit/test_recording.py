"""Recordings: what was said is played again, and what was never asked has a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.engine import (
    EngineLink,
    EngineRefusedError,
    check_answer,
    engine_of,
    read,
    recording,
    replaying,
)
from pytest_nfvperf.backends.replay import ReplayBackend
from pytest_nfvperf.config.testbed_file import load_testbed
from pytest_nfvperf.model.errors import ConfigError, GeneratorError

Answers = Callable[[str, Mapping[str, Any]], dict[str, Any]]


class ScriptedLink:
    """Answers by a function."""

    pid = 1

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._lines = iter([{"interval": 1}, {"id": 7, "ok": True}])

    def log_tail(self) -> str:
        return "log"

    def command(self, name: str, deadline_s: float, /, **arguments: Any) -> dict[str, Any]:
        return check_answer(self, name, self._answers(name, arguments))

    def send(self, name: str, deadline_s: float, /, **arguments: Any) -> int:
        return 7

    def read(self, awaited: str, deadline_s: float) -> dict[str, Any]:
        return next(self._lines)

    def close(self) -> None:
        pass


def scripted(answers: Answers) -> Callable[[Sequence[str], Path, Mapping[str, str]], EngineLink]:
    return lambda argv, log, env: ScriptedLink(answers)


def counting() -> Answers:
    asked: list[str] = []

    def answers(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(name)
        return {"ok": True, "number": len(asked)}

    return answers


def recorded(path: Path, answers: Answers) -> EngineLink:
    return recording(scripted(answers), "embedded", path)([], path, {})


def played(path: Path) -> EngineLink:
    return replaying(path, "embedded")([], path, {})


def test_the_same_questions_get_the_same_answers_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "made" / "x.jsonl"
    link = recorded(path, counting())
    said = [link.command("trial", 1.0, fps=fps) for fps in (1, 2, 1)]
    again = played(path)
    assert [again.command("trial", 1.0, fps=fps) for fps in (2, 1, 1)] == [said[1], said[0], said[2]]


def test_where_things_are_found_does_not_matter(tmp_path: Path) -> None:
    link = recorded(tmp_path / "x", counting())
    link.command("attach", 1.0, name="p0", device="/run/there.sock")
    assert played(tmp_path / "x").command("attach", 1.0, name="p0", device="/run/here.sock")["ok"]


def test_a_recording_says_nothing_of_the_machine_that_it_was_made_on(tmp_path: Path) -> None:
    """Where the engine lies, and who asked it, in the question and in the answer."""
    directory, user = "/home/bob/t\u00e9st/trex", "nfvperf-bobs-machine-1-2"

    def answers(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {"ok": True, "library": f"{directory}/automation", "ports": [{"owner": user}]}

    link = recording(scripted(answers), "trex", tmp_path / "x")([], tmp_path / "x", {})
    assert link.command("hello", 1.0, path=directory, user=user)["library"] == f"{directory}/automation"
    text = (tmp_path / "x").read_text()
    assert "bob" not in text
    assert json.loads(text.splitlines()[1])["answer"]["library"] == "trex/automation"
    again = replaying(tmp_path / "x", "trex")([], tmp_path / "x", {})
    assert again.command("hello", 1.0, path="recorded", user="nfvperf-here-3-4")["ports"] == [{"owner": "nfvperf"}]


def test_states_can_be_asked_for_again_and_trials_cannot(tmp_path: Path) -> None:
    link = recorded(tmp_path / "x", counting())
    link.command("links", 1.0)
    link.command("trial", 1.0, fps=5)
    again = played(tmp_path / "x")
    assert [again.command("links", 1.0)["number"] for _ in range(3)] == [1, 1, 1]
    again.command("trial", 1.0, fps=5)
    with pytest.raises(GeneratorError, match=r"does not answer this: no 'trial' is left in it; the test asks for more"):
        again.command("trial", 1.0, fps=5)


def test_a_question_that_differs_is_told_by_its_words(tmp_path: Path) -> None:
    recorded(tmp_path / "x", counting()).command("trial", 1.0, fps=5, seconds=1)
    with pytest.raises(GeneratorError, match=r"'trial' was recorded with other fps; record it again"):
        played(tmp_path / "x").command("trial", 1.0, fps=6, seconds=1)


def test_refusals_and_failures_are_played_too(tmp_path: Path) -> None:
    def answers(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if name == "trial":
            raise GeneratorError("the generator failed: it was killed by SIGKILL during trial")
        return {"ok": False, "code": "port_taken", "error": "taken by 'alice'", "owner": "alice"}

    link = recorded(tmp_path / "x", answers)
    for name in ("attach", "trial"):
        with pytest.raises(GeneratorError):
            link.command(name, 1.0)
    again = played(tmp_path / "x")
    with pytest.raises(EngineRefusedError) as refused:
        again.command("attach", 1.0)
    assert refused.value.answer["owner"] == "alice"
    with pytest.raises(GeneratorError, match="it was killed by SIGKILL during trial"):
        again.command("trial", 1.0)


def test_answers_of_several_lines_are_played(tmp_path: Path) -> None:
    link = recorded(tmp_path / "x", counting())
    assert link.send("trial", 1.0, fps=1) == 7
    lines = [link.read("it", 1.0) for _ in range(2)]
    again = played(tmp_path / "x")
    assert again.send("trial", 1.0, fps=1) == 7
    assert [again.read("it", 1.0) for _ in range(2)] == lines
    with pytest.raises(GeneratorError, match="ends where the next interval is awaited"):
        again.read("the next interval", 1.0)


def test_each_start_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    for text in ("first", "second"):
        recorded(tmp_path / "x", lambda name, arguments, text=text: {"ok": True, "said": text}).command("hello", 1.0)  # type: ignore[misc]
    start = replaying(tmp_path / "x", "embedded")
    assert [start([], tmp_path, {}).command("hello", 1.0)["said"] for _ in range(3)] == ["first", "second", "second"]


def test_a_closed_one_answers_no_more(tmp_path: Path) -> None:
    recorded(tmp_path / "x", counting()).command("links", 1.0)
    again = played(tmp_path / "x")
    again.close()
    with pytest.raises(GeneratorError, match="it was closed"):
        again.command("links", 1.0)


HEADER = json.dumps({"format": "nfvperf-engine-recording", "version": 1, "engine": "trex"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no recorded requests"),
        (HEADER, "holds no recorded requests"),
        ("no json", "x:1: is not a recording"),
        ('{"cmd": "hello"}', "it was not made by --nfv-record"),
        ('{"format": "other"}', "is not a recording of version 1"),
        (HEADER + '\n{"cmd": "hello", "arguments": {}}', "is a recording of engine 'trex', not 'embedded'"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(ConfigError) as told:
        read(tmp_path / "x", None if message == "holds no recorded requests" else "embedded")
    assert message in str(told.value)


def test_the_engine_is_named_and_a_missing_file_too(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(HEADER + '\n{"cmd": "hello", "arguments": {}}\n')
    assert engine_of(tmp_path / "x") == "trex"
    with pytest.raises(ConfigError, match="cannot be read"):
        engine_of(tmp_path / "nothing")


def test_a_recording_of_an_engine_that_nobody_has_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(HEADER.replace('"trex"', '"ixia"') + '\n{"cmd": "hello", "arguments": {}}\n')
    (tmp_path / "lab.yaml").write_text("schema: 1\nname: x\ngenerator: {engine: replay, recording: x}\n")
    with pytest.raises(ConfigError, match=r"is a recording of engine 'ixia', which is none of embedded, .*trex"):
        ReplayBackend(load_testbed(tmp_path / "lab.yaml")[0])
