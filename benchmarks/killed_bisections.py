"""A bisection over real versions is killed at random moments, ten times: does the same command go on with it?

The versions are seventeen prefixes of this machine's Open vSwitch, with DPDK, and a test that sends real frames. From
one version on, ovs-vswitchd has a limit of CPU time and dies of it in the trial.
"""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.prefixes import VERSIONS, row
from benchmarks.table import Figure, last_line
from pytest_nfvperf.adapters.ovs.installation import OvsBinaries, locate
from pytest_nfvperf.features.bisect.events import LOG
from pytest_nfvperf.model.display import how_many

_BISECTIONS, _KILLS = 10, 2
_SEED = 2544
_LONGEST_S = 30.0
"""A kill comes so long after the start at most: a whole bisection takes about twice as long."""

_CPU_S = 4
"""What a bad ovs-vswitchd may use. Its poll-mode thread polls from the first port on, so it dies within the trial."""

_CONFTEST = 'pytest_plugins = ["pytest_nfvperf.fixtures.all"]\n'
_SUITE = """
from pytest_nfvperf import Traffic

def test_lives(phy2phy, search, sla):
    sla.check(search.loss_at(phy2phy, Traffic(frame_size=64), 1e5, 5.0))
"""
_SLA = "schema: 1\nrules:\n  - {where: {}, require: {loss_ratio: '<= 10 %'}}\n"


@dataclass(frozen=True, slots=True)
class _Ended:
    """``killed``: how often; ``kept``: the log ended with all that it had at each kill; ``last``: the last line."""

    killed: int
    kept: bool
    right: bool
    last: str


def killed_bisections() -> list[Figure]:
    """Bisections that named the right version after they were killed, and whose logs lost nothing."""
    chances = random.Random(_SEED)  # noqa: S311 - moments and versions, no secret
    installed = locate()
    ended = [_ended(installed, chances) for _ in range(_BISECTIONS)]
    right, kept = (sum(found) for found in ([one.right for one in ended], [one.kept for one in ended]))
    kills = f"killed {how_many(sum(one.killed for one in ended), 'time')}, seed {_SEED}"
    wrong = "; ".join(one.last for one in ended if not one.right)
    return [
        Figure(
            "killed bisections of real versions that name the right one",
            f"{right} of {_BISECTIONS}",
            f"{_BISECTIONS} of {_BISECTIONS}",
            right == _BISECTIONS,
            wrong or kills,
        ),
        Figure("logs that lost no measurement", f"{kept} of {_BISECTIONS}", "all", kept == _BISECTIONS),
    ]


def _ended(installed: OvsBinaries, chances: random.Random) -> _Ended:
    with TemporaryDirectory() as name:
        directory = Path(name)
        versions = row(directory, installed, chances.randrange(1, VERSIONS), f"ulimit -t {_CPU_S}\n")
        _write_project(directory)
        command = versions.bisect("--by", "outcomes", "--log", "log", "--", "mine")
        log = directory / "log" / LOG
        kills = [_killed_after(command, directory, log, chances.uniform(1.0, _LONGEST_S)) for _ in range(_KILLS)]
        seen = [lines for lines in kills if lines is not None]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        right, last = versions.named_by(done), last_line(done.stdout + done.stderr)
        in_the_end = _whole_lines(log)
        print(f"  {versions.culprit}, killed {how_many(len(seen), 'time')}: {'found' if right else last}", flush=True)
        return _Ended(len(seen), all(in_the_end.startswith(lines) for lines in seen), right, last)


def _killed_after(command: Sequence[str], directory: Path, log: Path, moment_s: float) -> bytes | None:
    """The whole lines of the log when it was killed; None where the bisection had ended by itself."""
    with (directory / "output").open("a") as output:
        running = subprocess.Popen(command, cwd=directory, stdout=output, stderr=output)
    with suppress(subprocess.TimeoutExpired):
        running.wait(moment_s)
        return None
    running.send_signal(signal.SIGKILL)
    running.wait()
    return _whole_lines(log)


def _whole_lines(log: Path) -> bytes:
    written = log.read_bytes() if log.exists() else b""
    return written[: written.rfind(b"\n") + 1]


def _write_project(directory: Path) -> None:
    (directory / "conftest.py").write_text(_CONFTEST)
    (directory / "mine").mkdir()
    (directory / "mine" / "sla.yaml").write_text(_SLA)
    (directory / "mine" / "test_mine.py").write_text(_SUITE)
