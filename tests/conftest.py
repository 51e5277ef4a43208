"""Fixtures of tests that make things on the machine, and of those that run pytest in pytest."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import IO

import pytest

from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run, without_repository
from tests.contexts import register_plugins
from tests.examples import choose_profile
from tests.forked_pytest import ForkServer
from tests.functional.ovs_support import clean_run, started
from tests.times import CACHE_KEY, kept_files

choose_profile()
for name in os.environ.keys() - without_repository(os.environ).keys():
    del os.environ[name]  # a hook's, or those of `git rebase --exec make test`: the tests' own git would go there

FORKED = {("-mpytest",): "pytest", ("-m", "pytest_nfvperf.cli.main"): "pytest_nfvperf.cli.main"}
"""How pytester's own runs of pytest begin, and those of nfvperf. ``-m pytest`` is an interpreter of its own."""


def pytest_runtest_setup() -> None:
    """No test begins after the time that .ci/run gives, so that the gate ends in time where the host is busy."""
    until = os.environ.get("NFV_TESTS_BEGIN_UNTIL")
    if until and time.time() > float(until):
        pytest.skip("not begun: the gate's time is over, this host is busy")


def pytest_configure(config: pytest.Config) -> None:
    register_plugins(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(config), "nfv-times")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers take the longest files first, so that they end at about the same time."""
    if hasattr(config, "workerinput"):
        known = kept_files()
        items.sort(key=lambda item: -known.get(item.nodeid.split("::")[0], 0.0))


class Times:
    """Notes the seconds of each test in pytest's cache, for ``python -m tests.times``."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        cache = getattr(self._config, "cache", None)
        if cache is not None and self._seconds:
            cache.set(CACHE_KEY, cache.get(CACHE_KEY, {}) | self._seconds)


@pytest.fixture(scope="session", autouse=True)
def names_stay_seen() -> None:
    """The first ``ip netns add`` of a machine hides the names of older namespaces: it comes before all tests.

    It mounts /run/netns over itself (ip-netns(8)). On a new machine a test of one worker did so while another worker's
    was in a namespace of its own, which then had no name any more.
    """
    if os.geteuid() == 0 and shutil.which("ip") is not None:
        name = f"nfv-first-{os.getpid()}"
        run(["ip", "netns", "add", name])
        run(["ip", "netns", "delete", name])


@pytest.fixture(scope="module")
def journal() -> Iterator[Journal]:
    """Of a run that all tests of a file share, and that leaves nothing."""
    with clean_run() as made:
        yield made


@pytest.fixture(scope="module")
def ovs(journal: Journal) -> Iterator[OvsDatapath]:
    """A private OVS in userspace, without DPDK, that all tests of a file share."""
    with started(journal, "netdev") as running:
        yield running


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServer]:
    """An interpreter that has imported pytest and the plugin, for this worker's runs of pytest in pytest."""
    with ForkServer() as server:
        yield server


@pytest.fixture
def pytester(
    pytester: pytest.Pytester, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """Its runs of pytest and ``nfvperf`` are forks of one interpreter, unless the test is marked ``own_interpreter``.

    They do without hypothesis' plugin, which takes 0.9 s of each: it imports all of hypothesis for the summary. Runs
    that are started as processes of their own (of stops, of the wheel) have it, as a user's may.
    """
    pytester.plugins.append("no:hypothesispytest")
    if request.node.get_closest_marker("own_interpreter") is None:
        forks: ForkServer = request.getfixturevalue("forks")
        popen = pytester.popen

        def forked(command: Sequence[str], *, stdout: IO[str], stderr: IO[str], stdin: object) -> object:
            program, *words = map(str, command)
            for begins, module in FORKED.items():
                if program == sys.executable and tuple(words[: len(begins)]) == begins:
                    return forks.begin(module, words[len(begins) :], stdout, stderr)
            return popen(command, stdout=stdout, stderr=stderr, stdin=stdin)  # type: ignore[arg-type]

        monkeypatch.setattr(pytester, "popen", forked)
    return pytester
