"""What the gate .ci/fresh reads of the machine, and of a run's report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fresh import __main__ as gate
from tests.fresh import roots
from tests.fresh.inside import counted
from tests.fresh.plan import RELEASES, steps, tutorial_steps

TARGETS = (
    "http://one.example/tools\tstable\tmain\n"
    "http://mirror.example/debian-security\tbookworm-security\tmain\n"
    "http://mirror.example/debian/\tbookworm-updates\tmain\n"
    "http://mirror.example/debian/\tbookworm\tcontrib\n"
    "http://mirror.example/debian/\tbookworm\tmain\n"
)


def test_the_mirror_is_that_of_the_release_that_runs_here() -> None:
    assert roots.release_archives(TARGETS, "bookworm") == ["http://mirror.example/debian/"]
    assert roots.release_archives(TARGETS, "noble") == []


def test_without_a_debian_mirror_it_says_what_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "_told", lambda *_: "http://mirror.example/ubuntu\tnoble\tmain\n")
    with pytest.raises(roots.FreshError, match=r"no archive of Debian \w+ in apt's sources .*: add one"):
        roots.mirror()


def test_an_unknown_release_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gate.main(["potato"])
    assert f"no release potato: known are {', '.join(RELEASES)}" in capsys.readouterr().err


def test_what_ran_and_what_was_skipped_is_counted(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(
        '<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10"/></testsuites>'
    )
    assert counted(report) == (7, "7 tests ran, 3 skipped; 2 failed, 1 errors")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"bookworm": "some tutorial", "trixie": "whole"}),
        (["--some"], {"bookworm": "some tutorial", "trixie": "some"}),
        (["--whole"], {"bookworm": "tutorial whole", "trixie": "whole"}),
        (["--whole", "trixie"], {"trixie": "tutorial whole"}),
        (["--tutorial", "trixie"], {"trixie": "tutorial"}),
    ],
)
def test_all_tests_run_where_make_test_does_not_and_the_tutorial_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], expected: dict[str, str]
) -> None:
    tried: dict[str, str] = {}

    def note(release: str, what: frozenset[str]) -> bool:
        tried[release] = " ".join(sorted(what))
        return True

    monkeypatch.setattr(gate, "machines_release", lambda: "bookworm")
    monkeypatch.setattr(gate, "_only_one", lambda: (tmp_path / "lock").open("w"))
    monkeypatch.setattr(gate, "_try", note)
    monkeypatch.setattr(gate.signal, "signal", lambda *_: None)
    assert gate.main(words) == 0
    assert tried == expected


def test_the_tutorial_ends_green_and_then_red() -> None:
    *_, green, change, red = [(step.command[-1], set(step.passes)) for step in tutorial_steps()]

    assert green == (".venv/bin/pytest", {0, 10})
    assert change[0].startswith("sed -i")
    assert change[1] == {0}
    assert red == (".venv/bin/pytest", {1})


def test_every_file_of_the_plans_is_there() -> None:
    root = Path(__file__).parents[2]
    words = [word for whole in (False, True) for step in steps(whole=whole) for word in step.command]
    assert [
        word for word in words if word.startswith(("tests/", "suites/", ".ci/")) and not (root / word).exists()
    ] == []
