"""Runs in unfriendly surroundings, made by the kernel itself: what the machine lacks is no reason to fail."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.plugin.test_mistakes import project
from tests.stepped_clock import FILE, HOUR_S, YEAR_S, make

SUITE = '''
from pytest_nfvperf import Traffic

def test_pdr(phy2phy, search, sla):
    """Steps: Rahmen senden, müßig zählen. Verify: ≥ 3.5 Mpps."""
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64)))
'''
SLA = """
schema: 1
rules:
  - require: {pdr: ">= 3.5 Mpps"}
"""
ACCEPTED = "nfvperf: Accepted: the one requirement met, the one selected test passed. (exit status 0)"
HERE = Path(__file__).parents[2]
REFUSING = (sys.executable, "-m", "tests.refusing")
_NAMED = "import os, socket, sys; socket.sethostname(b'{}'); os.execv(sys.argv[1], sys.argv[1:])"
UTF_8_HOST = ("unshare", "--uts", sys.executable, "-c", _NAMED.format(r"m\xc3\xbcller"))
LATIN_1_HOST = ("unshare", "--uts", sys.executable, "-c", _NAMED.format(r"m\xfcller"))
"""pytest's own --junitxml and allure-pytest write the host's name, and fail where it is no UTF-8."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces of its own")


@pytest.fixture
def user(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project on a simulated DUT, from which ``python -m tests.refusing`` can be called."""
    project(pytester, SUITE)
    (pytester.path / "mine/sla.yaml").write_text(SLA)
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    return pytester


def run(user: pytest.Pytester, within: Sequence[str] = (), *options: str) -> pytest.RunResult:
    """A run of pytest within what a command makes of the world; with every file that a CI asks for."""
    outputs = () if within is LATIN_1_HOST else ("--alluredir=allure", "--junitxml=junit.xml")
    plain = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return user.run(*within, sys.executable, "-m", "pytest", *plain, *outputs, *options)


def accepted(user: pytest.Pytester, result: pytest.RunResult) -> Path:
    """The only directory of results of a run that was accepted."""
    assert result.ret == 0, result.stdout.str() + result.stderr.str()
    result.stdout.fnmatch_lines([ACCEPTED.replace("[", "[[]")])
    (made,) = [path for path in (user.path / "reports").iterdir() if not path.is_symlink()]
    return made


MORE = pytest.mark.thorough("one case of these is in make test")


@pytest.mark.parametrize("error", ["EPERM", pytest.param("EOPNOTSUPP", marks=MORE)])
def test_a_file_system_without_links(user: pytest.Pytester, error: str) -> None:
    """vfat says EPERM, some network shares EOPNOTSUPP."""
    result = run(user, (*REFUSING, f"symlink={error}", f"link={error}", "--"))

    made = accepted(user, result)
    assert (made / "report.html").is_file()
    why = f"the file system has no symbolic links (*); name the run itself: {made}*"
    result.stdout.fnmatch_lines([f"nfvperf: the link to the latest run was not renewed: {why}"])
    assert result.stdout.str().count("no symbolic links") == 1
    shown = user.run(sys.executable, "-m", "pytest_nfvperf.cli.main", "show", str(made))
    assert shown.ret == 0


FETCH = """
import sys
from pathlib import Path
from pytest_nfvperf.adapters.vnf import guest_kernel
from pytest_nfvperf.model.errors import TestbedError

guest_kernel.need = lambda *names: None
guest_kernel.newest_package = lambda: "linux-image-6.1.0"
try:
    guest_kernel.prepare_kernel(Path(sys.argv[1]))
except TestbedError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("refused", "cache", "why"),
    [
        ("flock=ENOLCK", "cache", "No locks available"),
        ("fsync=EIO", "/proc/cache", "No such file or directory"),
    ],
)
def test_a_cache_without_locks(user: pytest.Pytester, refused: str, cache: str, why: str) -> None:
    result = user.run(*REFUSING, refused, "--", sys.executable, "-c", FETCH, cache)
    result.stdout.fnmatch_lines(
        [f"the guest's kernel cannot be kept in {cache}: {why}; set XDG_CACHE_HOME to a directory that can be written*"]
    )


@pytest.mark.parametrize(
    "refused", ["flock=EOPNOTSUPP", pytest.param("flock=ENOLCK", marks=MORE), "fsync=EINVAL", "chmod=EPERM"]
)
def test_a_file_system_that_lacks_more(user: pytest.Pytester, refused: str) -> None:
    accepted(user, run(user, (*REFUSING, refused, "--"), "--nfv-report=none"))


def test_a_disk_that_refuses_to_sync_is_no_file_system_that_cannot(user: pytest.Pytester) -> None:
    result = run(user, (*REFUSING, "fsync=EIO", "--"))
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*evidence file * cannot take record *: Input/output error*"])


def test_workers_whose_results_cannot_be_locked_are_told_where_to(user: pytest.Pytester) -> None:
    result = run(user, (*REFUSING, "flock=EOPNOTSUPP", "--"), "-n", "2")
    assert result.ret == 4
    why = "cannot be locked: Operation not supported; put it on a file system that has locks (flock(2))"
    result.stderr.fnmatch_lines([f"ERROR: *reports/*: {why}*"])


AT_ONE_TIME = """
import os, datetime
from pytest_nfvperf.plugin import run_state

class Then(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 1, 2, 30, tzinfo=tz)

run_state.datetime = Then
run_state.os.getpid = lambda: 7
"""


def test_runs_of_one_time_and_pid_have_directories_of_their_own(user: pytest.Pytester) -> None:
    """The pid of a container's only process is the same in each, and a clock that is set back shows a time again."""
    conftest = user.path / "conftest.py"
    conftest.write_text(AT_ONE_TIME + conftest.read_text())
    for name in ("20261101-023000-7", "20261101-023000-7-1", "20261101-023000-7-2"):
        assert run(user, (), "--nfv-report=none").ret == 0
        assert str(Path("reports/latest").readlink()) == name


STEPPED = """
import os, struct, time
from pathlib import Path
from pytest_nfvperf import Traffic
from tests.stepped_clock import FILE, step

def test_pdr(phy2phy, search, sla):
    before = time.time()
    found = search.ndr_pdr(phy2phy, Traffic(frame_size=64))
    step(Path(os.environ[FILE]), %d)
    assert abs(time.time() - before) > 3000
    sla.check(found)
"""


@pytest.mark.parametrize("by_s", [HOUR_S, *(pytest.param(by_s, marks=MORE) for by_s in (-HOUR_S, YEAR_S)), -YEAR_S])
def test_a_clock_that_is_set_in_the_middle_of_a_run(
    user: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, by_s: int
) -> None:
    """Verify: the run is accepted; report and history have its start, and that it took seconds."""
    (user.path / "mine/test_mine.py").write_text(STEPPED % by_s)
    for name, value in make(user.path).items():
        monkeypatch.setenv(name, value)
    made = accepted(user, run(user))
    monkeypatch.delenv(FILE)
    assert f"{made.name[:4]}-{made.name[4:6]}-{made.name[6:8]}" in (page := (made / "report.html").read_text("utf-8"))
    assert re.search(r"UTC, took [0-9.]+ m?s\b", page)
    told = user.run(sys.executable, "-m", "pytest_nfvperf.cli.main", "history", "add", str(made))
    assert told.ret == 0
    (entry,) = (user.path / "history").glob("*.json")
    assert made.name in entry.name


@pytest.mark.parametrize(
    ("within", "variables"),
    [
        ((), {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        ((), {"LC_ALL": "tr_TR.UTF-8", "LANGUAGE": "tr", "TZ": "America/St_Johns"}),
        pytest.param(UTF_8_HOST, {"TZ": "Europe/Berlin"}, marks=[needs_root, MORE]),
        pytest.param(LATIN_1_HOST, {}, marks=[needs_root, MORE]),
    ],
)
def test_languages_zones_and_names(
    user: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, within: tuple[str, ...], variables: dict[str, str]
) -> None:
    """Verify: the run is accepted, and its directory's name is of UTC, whatever the zone and its summer time."""
    if Path("/usr/share/i18n/locales/tr_TR").exists():
        user.run("localedef", "-i", "tr_TR", "-f", "UTF-8", str(user.path / "tr_TR.UTF-8"))
        monkeypatch.setenv("LOCPATH", str(user.path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before = datetime.now(UTC).replace(microsecond=0)
    made = accepted(user, run(user, within))
    stamp = datetime.strptime(made.name[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    assert before <= stamp <= datetime.now(UTC)
