"""What a run says of the version it ran on, in the words of ``git bisect run``: good, bad, or nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from pytest_nfvperf.model.evidence.conclusion import Fate, RunConclusion, RunFate, TestConclusion

_VSWITCHD_DIED = re.compile(r"\bovs-vswitchd \(pid \d+\) ")


class Judged(IntEnum):
    """Exit statuses of ``git bisect run`` (git-bisect(1)); STOP ends the bisection, as all above 127 do."""

    GOOD = 0
    BAD = 1
    CANNOT_TELL = 125
    STOP = 130


@dataclass(frozen=True, slots=True)
class VersionJudgement:
    """``why``: in a line, for a person."""

    judged: Judged
    why: str


def judge(run: RunConclusion) -> VersionJudgement:
    """Bad is only what a test shows: all that a rig, a skip or a mistake could have caused is no answer."""
    if run.fate is RunFate.INTERRUPTED:
        return VersionJudgement(Judged.STOP, run.last_line)
    bad = [test for test in run.tests if failed(test)]
    if bad and run.fate in {RunFate.FAILED, RunFate.BROKEN}:
        return VersionJudgement(Judged.BAD, f"bad: {bad[0].node_id}: {bad[0].told or bad[0].reason}")
    if run.fate not in {RunFate.ACCEPTED, RunFate.PASSED}:
        return VersionJudgement(Judged.CANNOT_TELL, f"cannot tell: {run.last_line}")
    open_ones = [test for test in run.tests if test.tolerated]
    if open_ones:
        return VersionJudgement(Judged.CANNOT_TELL, f"cannot tell: {open_ones[0].node_id} was inconclusive")
    if not any(test.fate is Fate.PASSED for test in run.tests):
        return VersionJudgement(Judged.CANNOT_TELL, f"cannot tell: {run.headline}")
    return VersionJudgement(Judged.GOOD, f"good: {run.headline}")


def failed(test: TestConclusion) -> bool:
    """True for a test that failed, and for one in which the DUT's own daemon died."""
    return test.fate is Fate.FAILED or (test.fate is Fate.BROKEN and bool(_VSWITCHD_DIED.search(test.reason)))


def passed(test: TestConclusion) -> bool:
    """True for one that passed, and could have failed."""
    return test.fate is Fate.PASSED and not test.tolerated
