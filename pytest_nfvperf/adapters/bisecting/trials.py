"""Measures what a bisection asks for: by ``nfvperf compare``, or by one run of the tests on a version."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.bisecting.candidates import Candidate
from pytest_nfvperf.adapters.bisecting.comparing import compare
from pytest_nfvperf.adapters.bisecting.installing import Installer, NotUsableError
from pytest_nfvperf.adapters.bisecting.one_run import run_tests
from pytest_nfvperf.model.bisect.bisection import Ask, Purpose
from pytest_nfvperf.model.bisect.judging import failed, passed
from pytest_nfvperf.model.bisect.seen import Event, Ran, Unusable, VersionComparison
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, RunFate

_INTERRUPTED = "the tests were interrupted"


@dataclass(frozen=True, slots=True)
class MeasuredVersions:
    """Versions on this machine.

    Attributes:
        candidates: in order, the good end first.
        installer: makes them usable.
        arguments: of pytest.
        results: where runs go, each in a directory of its own.
    """

    candidates: Sequence[Candidate]
    installer: Installer
    arguments: Sequence[str]
    results: Path

    def measure(self, ask: Ask) -> Event:
        """As the port VersionTrials has it."""
        wheres = []
        for version in (ask.base, ask.version):
            try:
                wheres.append(self.installer.where(self.candidates[version]))
            except NotUsableError as error:
                return Unusable(version, str(error))
        again = ask.purpose is Purpose.CONFIRM
        if not ask.blocks:
            return self._run(ask.version, wheres[1], again=again)
        if ask.virtual:
            return self._counted(ask, wheres, again=again)
        found = compare(wheres[0], wheres[1], self.arguments, self._new_directory(ask), blocks=ask.blocks)
        if isinstance(found, str):
            return Unusable(ask.version, found)
        return VersionComparison(ask.base, ask.version, found.blocks, found.figures, again, found.note)

    def _counted(self, ask: Ask, wheres: Sequence[str], *, again: bool) -> Event:
        """Instructions. Tests at the ends that do not offer them, and a machine without guests, are no mistake."""
        try:
            found = compare(wheres[0], wheres[1], self.arguments, self._new_directory(ask), blocks=None)
        except (ConfigError, TestbedError) as error:
            if ask.purpose is not Purpose.ENDS:
                raise
            why = error.message.strip().partition("\n")[0]
            return VersionComparison(
                ask.base, ask.version, 1, (), note=f"instructions were not counted: {why}", virtual=True
            )
        if isinstance(found, str):
            return Unusable(ask.version, found)
        return VersionComparison(ask.base, ask.version, found.blocks, found.figures, again, found.note, virtual=True)

    def _run(self, version: int, where: str, *, again: bool) -> Event:
        """A version on which the testbed breaks is unusable, if it does not break on the good end as well."""
        run = self._conclusion(version, where)
        good = tuple(test.node_id for test in run.tests if passed(test))
        bad = tuple((test.node_id, test.told or test.reason) for test in run.tests if failed(test))
        if good or bad or run.fate is not RunFate.BROKEN:
            return Ran(version, good, bad, again)
        control = self._conclusion(0, self.installer.where(self.candidates[0])) if version else run
        if control.fate is RunFate.BROKEN:
            raise TestbedError(f"the testbed broke on {self.candidates[0].name}: {control.last_line}")
        return Unusable(version, run.reason)

    def _conclusion(self, version: int, where: str) -> RunConclusion:
        directory = self._new_directory(Ask(version, version, 0, Purpose.SEARCH))
        run = run_tests([*self.arguments, "--nfv-ovs", where], directory)
        if run.fate in {RunFate.USAGE, RunFate.EMPTY}:
            raise ConfigError(f"the tests cannot be run: {run.last_line}")
        if run.fate in {RunFate.INTERRUPTED, RunFate.KILLED, RunFate.INTERNAL}:
            raise TestbedError(f"{_INTERRUPTED} on {self.candidates[version].name}: {run.last_line}")
        return run

    def _new_directory(self, ask: Ask) -> Path:
        """``007-v12``: in the order of time, with the version's name."""
        name = self.candidates[ask.version].name.replace(":", "-").replace("/", "-")
        taken = {path.name.partition("-")[0] for path in self.results.glob("*-*")}
        number = next(each for each in itertools.count(1) if f"{each:03}" not in taken)
        return self.results / f"{number:03}-{name}"
