"""A bisection over real versions is killed at random moments, ten times: does the same command go on with it?

The versions are seventeen prefixes of this machine's Open vSwitch, with DPDK, and a test that sends real frames. From
one version on, ovs-vswitchd has a limit of CPU time and dies of it in the trial.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.table import Figure
from pytest_nfvperf.adapters.bisecting.event_log import LOG
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries, locate
from pytest_nfvperf.model.display import how_many

_BISECTIONS, _VERSIONS, _KILLS = 10, 17, 2
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
        place = Path(name)
        guilty = chances.randrange(1, _VERSIONS)
        versions = [_version(place / f"v{at:02}", installed, dies=at >= guilty) for at in range(_VERSIONS)]
        _write_project(place)
        command = _command(versions)
        log = place / "log" / LOG
        kills = [_killed_after(command, place, log, chances.uniform(1.0, _LONGEST_S)) for _ in range(_KILLS)]
        seen = [lines for lines in kills if lines is not None]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        told = done.stdout + done.stderr
        right = done.returncode == 0 and f"v{guilty:02} brought it in" in told and "Confirmed." in told
        last = (told.strip().splitlines() or ["it printed nothing"])[-1]
        in_the_end = _whole_lines(log)
        print(f"  v{guilty:02}, killed {how_many(len(seen), 'time')}: {'found' if right else last}", flush=True)
        return _Ended(len(seen), all(in_the_end.startswith(lines) for lines in seen), right, last)


def _killed_after(command: Sequence[str], place: Path, log: Path, moment_s: float) -> bytes | None:
    """The whole lines of the log when it was killed; None where the bisection had ended by itself."""
    with (place / "output").open("a") as output:
        running = subprocess.Popen(command, cwd=place, stdout=output, stderr=output)
    with suppress(subprocess.TimeoutExpired):
        running.wait(moment_s)
        return None
    running.send_signal(signal.SIGKILL)
    running.wait()
    return _whole_lines(log)


def _whole_lines(log: Path) -> bytes:
    written = log.read_bytes() if log.exists() else b""
    return written[: written.rfind(b"\n") + 1]


def _command(versions: Sequence[Path]) -> list[str]:
    ends = ["--good", str(versions[0]), "--bad", str(versions[-1])]
    between = [str(version) for version in versions[1:-1]]
    asked = [*ends, "--versions", *between, "--by", "outcomes", "--log", "log", "--", "mine"]
    # Killed with this bench a bisection would go on, and hold the CPUs.
    return ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "pytest_nfvperf.cli.main", "bisect", *asked]


def _version(prefix: Path, installed: OvsBinaries, *, dies: bool) -> Path:
    """A prefix whose programs are the installed ones."""
    places = {
        "sbin/ovsdb-server": installed.ovsdb_server,
        "bin/ovsdb-tool": installed.ovsdb_tool,
        "bin/ovs-ofctl": installed.ofctl,
        "share/openvswitch/vswitch.ovsschema": installed.schema,
    }
    for name, program in places.items():
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).symlink_to(program)
    vswitchd = prefix / "sbin/ovs-vswitchd"
    limit = f"ulimit -t {_CPU_S}\n" if dies else ""
    vswitchd.write_text(f'#!/bin/sh\n{limit}exec {installed.vswitchd} "$@"\n')
    vswitchd.chmod(0o755)
    return prefix


def _write_project(place: Path) -> None:
    (place / "conftest.py").write_text(_CONFTEST)
    (place / "mine").mkdir()
    (place / "mine" / "sla.yaml").write_text(_SLA)
    (place / "mine" / "test_mine.py").write_text(_SUITE)
