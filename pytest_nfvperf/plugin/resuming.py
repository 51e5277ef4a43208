"""``--nfv-resume RUN``: a run that was killed or interrupted goes on in its own directory.

Tests that ended there on a rig of the same fingerprint are taken over: they are not measured again, and pytest reports
them as they ended, or as the SLA of now judges them. All others run, and what they measure replaces what was left of
them. With workers each decides by its own rig, for the tests that it gets.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nfvperf.model.evidence.conclusion import Fate
from pytest_nfvperf.plugin.link import link_of
from pytest_nfvperf.plugin.taken import Taken
from pytest_nfvperf.plugin.telling import say

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence
    from pytest_nfvperf.session.run import NfvSession

EARLIER_KEY = pytest.StashKey["RunEvidence"]()
NAME_KEY = pytest.StashKey[str]()
"""Begins the names of the files of the process that goes on, and of its workers: ``resumed-1``, and so on each time."""

TAKEN_KEY: pytest.StashKey[TestEvidence] = pytest.StashKey()
"""Of a test that is not measured again: what is left of it, as the SLA of now judges it."""

PACKED_KEY = pytest.StashKey[dict[str, bytes]]()
"""What every worker on another machine is given."""

EVIDENCE = "nfv_resumes_evidence"
"""In the input of a worker on another machine: those files, compressed, by name."""

RESUMES = "nfv_resumes"
"""In a worker's input: that name, and the files that the run goes on with. Those of the run itself are beside them."""

_SETTLED = frozenset({Fate.PASSED, Fate.FAILED, Fate.INCONCLUSIVE, Fate.SKIPPED, Fate.XFAIL})
_NAME = "resumed"


def read_earlier(config: pytest.Config, given: Path, profile: str) -> None:
    """Read the run to go on with, for those who take it over.

    Raises:
        pytest.UsageError: there is none, it had another profile, or it compares.
    """
    from pytest_nfvperf.adapters.evidence.reader import read_run  # noqa: PLC0415 - only for who resumes
    from pytest_nfvperf.model.errors import ConfigError  # noqa: PLC0415

    workerinput = getattr(config, "workerinput", {})
    if EVIDENCE in workerinput:
        with TemporaryDirectory(prefix="nfvperf-resume-") as folder:
            _unpack(workerinput[EVIDENCE], Path(folder))
            config.stash[EARLIER_KEY] = read_run(Path(folder))
        config.stash[NAME_KEY] = workerinput[RESUMES][0]
        return
    name, files = workerinput.get(RESUMES, ("", None))
    if not given.is_dir():
        raise pytest.UsageError(f"--nfv-resume: {given} is no directory of a run, such as reports/latest")
    try:
        run = read_run(given, files)
    except ConfigError as error:
        raise pytest.UsageError(f"--nfv-resume: {error}") from error
    if run.run is None:
        raise pytest.UsageError(f"--nfv-resume: {given} has no run record: it measured nothing, so start anew")
    if run.run.compare is not None:
        raise pytest.UsageError(f"--nfv-resume: {given} compares sides, which needs all in one run: start it anew")
    if run.run.profile != profile:
        raise pytest.UsageError(
            f"--nfv-resume: {given} has profile {run.run.profile}: give --nfv-profile {run.run.profile}"
        )
    config.stash[EARLIER_KEY], config.stash[NAME_KEY] = run, name or _next_name(run)


def _next_name(run: RunEvidence) -> str:
    found = [re.match(rf"evidence-{_NAME}-(\d+)", file) for file in {*run.runs, *run.ends}]
    return f"{_NAME}-{1 + max((int(one[1]) for one in found if one), default=0)}"


def resumed_name(config: pytest.Config) -> str:
    """What begins the names of this process's files; "" where it goes on with nothing."""
    return config.stash.get(NAME_KEY, "")


def tell_worker(config: pytest.Config, workerinput: MutableMapping[str, Any], *, far: bool) -> None:
    """One that replaces another finds files of its own run, too, and must not go on with those.

    ``far``: it is on another machine, which does not have the files: they go with it.
    """
    if EARLIER_KEY not in config.stash:  # the controller is about to refuse
        return
    run = config.stash[EARLIER_KEY]
    workerinput[RESUMES] = (config.stash[NAME_KEY], list(_files(run)))
    if far:
        workerinput[EVIDENCE] = _packed(config, run)


def _packed(config: pytest.Config, run: RunEvidence) -> dict[str, bytes]:
    """The evidence by file, compressed to a tenth: 100,000 trials are 15 MB."""
    if PACKED_KEY not in config.stash:
        config.stash[PACKED_KEY] = {name: zlib.compress((run.path / name).read_bytes()) for name in _files(run)}
    return config.stash[PACKED_KEY]


def _unpack(packed: Mapping[str, bytes], folder: Path) -> None:
    for name, data in packed.items():
        (folder / Path(name).name).write_bytes(zlib.decompress(data))


def _files(run: RunEvidence) -> tuple[str, ...]:
    return tuple(sorted({*run.runs, *run.ends}))


def take_over(config: pytest.Config, items: list[pytest.Item], session: NfvSession) -> None:
    """Mark the tests that need not be measured again. Without workers they come first: no fixture is in use then."""
    from pytest_nfvperf.adapters.evidence.reader import conclude  # noqa: PLC0415 - only for who resumes
    from pytest_nfvperf.plugin.taking_over import TakesOver, take  # noqa: PLC0415 - as above

    run = config.stash[EARLIER_KEY]
    unlike = _unlike(run, session.backend.fingerprint())
    settled = {test.node_id for test in conclude(run).tests if test.fate in _SETTLED}
    ended = {
        item: test
        for item in items
        if item.nodeid in settled and (test := run.tests[item.nodeid]).end and test.file not in unlike
    }
    session.resumes = _files(run)
    anew = take(ended, session)
    config.pluginmanager.register(TakesOver(run, session), "nfvperf-takes-over")
    taken = [item for item in items if TAKEN_KEY in item.stash]
    if not hasattr(config, "workerinput"):
        items[:] = taken + [item for item in items if TAKEN_KEY not in item.stash]
    _tell(config, Taken(str(session.run_dir), _ids(taken), _ids(ended), _ids(anew), unlike), len(items))


def _ids(items: Iterable[pytest.Item]) -> tuple[str, ...]:
    return tuple(item.nodeid for item in items)


def _tell(config: pytest.Config, taken: Taken, selected: int) -> None:
    """The user; a worker its controller, which tells of all workers, and deals each test to one that takes it over."""
    link = link_of(config)
    if link is not None:
        link.tell_taken(taken)
        return
    for line in taken.lines(selected):
        say(config, line)


def _unlike(run: RunEvidence, now: Mapping[str, Any]) -> dict[str, str]:
    """In what the rig of each evidence file differs from this one, for those that do."""
    from pytest_nfvperf.session.run_record import CPU_BANDS  # noqa: PLC0415 - only for who resumes

    found = {}
    for file, data in run.runs.items():
        then = {name: value for name, value in data.fingerprint.items() if name != CPU_BANDS}
        names = sorted({*then, *now})
        differ = [name for name in names if _plain(then.get(name)) != _plain(now.get(name))]
        if differ:
            found[file] = ", ".join(f"{name} {then.get(name)} then, {now.get(name)} now" for name in differ)
    return found


def _plain(value: object) -> str:
    """As evidence has it: JSON knows no tuples, and only text for keys."""
    return json.dumps(value, sort_keys=True)
