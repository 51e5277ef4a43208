"""Interrupts real runs on the embedded testbed at random moments: who ends in time, and what is left.

By hand, from the repository: ``python tests/stops.py --by SIGINT --count 20 --seed 2544``.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

SUITES: dict[str, tuple[str, ...]] = {
    "search": ("suites/throughput/test_frame_sizes.py::test_ndr_pdr",),
    "soak": ("suites/endurance/test_soak.py::test_soak", "--nfv-soak-load", "1 Mpps", "--nfv-soak-duration", "15 s"),
    "tcp": ("suites/chaining/test_tcp.py",),
    "bgp": ("suites/routing/test_convergence.py",),
    "chain": ("suites/throughput/test_vnfs.py",),
    "short": ("suites/throughput/test_loss_and_bursts.py::test_fixed_load",),
}
"""What is interrupted. ``short`` ends by itself at about the latest moment: its teardown and report are met, too."""

HEADER = "nfvperf: profile "
REPOSITORY = Path(__file__).parents[1]


@dataclass
class Stop:
    """What was seen of one interrupted run. Times in seconds from the signal; None: never."""

    suite: str
    signal: str
    moment_s: float
    told_s: float | None = None
    ended_s: float | None = None
    status: int | None = None
    measured: bool = False
    report: bool = False
    in_time_to_stop: bool = True
    left: list[str] = field(default_factory=list)
    output: str = ""

    def __str__(self) -> str:
        if not self.in_time_to_stop:
            return f"{self.suite:6} had ended by itself after {self.moment_s:5.2f} s"
        told, ended = (f"{each:.2f} s" if each is not None else "never" for each in (self.told_s, self.ended_s))
        report = "report" if self.report else ("NO REPORT" if self.measured else "nothing measured yet")
        left = f"LEFT: {self.left}" if self.left else "nothing left"
        return (
            f"{self.signal:7} {self.suite:6} after {self.moment_s:5.2f} s: told {told}, ended {ended}, "
            f"status {self.status}, {report}, {left}"
        )


@contextmanager
def started(suite: tuple[str, ...], base: Path, results: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in a process group of its own, as a terminal's; its header has been read, so it is about to measure."""
    # Whoever starts this in the background of a script leaves SIGINT ignored; a person's terminal does not.
    heeding = ["env", "--default-signal=INT", sys.executable, "-m", "pytest", *suite, "-p", "no:cacheprovider"]
    run = subprocess.Popen(
        [*heeding, "--nfv-results", str(results)],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"NFVPERF_RUN_DIR": str(base), "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith(HEADER):
                break
        yield run
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        if run.stdout is not None:
            run.stdout.close()


def interrupt(suite: str, by: str, moment_s: float, base: Path, results: Path) -> Stop:
    """Start a suite, send the signal so long after its header, and see what becomes of the run."""
    stop = Stop(suite, by, moment_s)
    before = hugepages_in_use()
    with started(SUITES[suite], base, results) as run:
        time.sleep(moment_s)
        tags = [path.name for path in base.glob("*") if path.is_dir()]
        sent = time.monotonic()
        stop.in_time_to_stop = run.poll() is None
        if stop.in_time_to_stop:
            if by == "SIGINT":
                os.killpg(run.pid, signal.SIGINT)  # as a terminal does
            else:
                run.send_signal(signal.Signals[by])
        _follow(run, stop, sent)
    stop.measured = any(results.glob("2*/evidence.jsonl"))
    stop.report = any(results.glob("2*/report.html"))
    if by == "SIGKILL":  # what the next start does first
        clean = [sys.executable, "-m", "pytest_nfvperf.cli.main", "clean"]
        subprocess.run(clean, check=True, capture_output=True, env=os.environ | {"NFVPERF_RUN_DIR": str(base)})
    stop.left = left_behind(base, tags)
    if (more := hugepages_in_use() - before) > 0:
        stop.left.append(f"{more} hugepages in use")
    return stop


def _follow(run: subprocess.Popen[str], stop: Stop, sent: float) -> None:
    assert run.stdout is not None
    for line in run.stdout:
        if stop.told_s is None and "stopping: " in line:
            stop.told_s = time.monotonic() - sent
        stop.output += line
    stop.status = run.wait()
    stop.ended_s = time.monotonic() - sent


def left_behind(base: Path, tags: list[str]) -> list[str]:
    """Run directories, namespaces, interfaces and processes of the runs below this base directory."""
    found = [str(path) for path in base.glob("*") if path.is_dir()]
    for tag in tags:
        found += [path.name for path in Path("/run/netns").glob(f"nfv-{tag}-*")]
        found += [path.name for path in Path("/sys/class/net").glob(f"{tag}*")]
        found += [str(path) for path in Path("/dev/hugepages").glob(f"*{tag}*")]
    return found + processes_of(base)


def processes_of(base: Path) -> list[str]:
    """Those that were started with this base directory, with their state (proc_pid_status(5))."""
    wanted = f"NFVPERF_RUN_DIR={base}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                found.append(f"process {entry.name} ({state}) {line}")
    return found


def hugepages_in_use() -> int:
    """As the kernel counts them."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    fields = dict(line.split()[:2] for line in lines if line.startswith("HugePages_"))
    return int(fields["HugePages_Total:"]) - int(fields["HugePages_Free:"])


def main() -> int:
    """Interrupt as often as asked, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=["SIGINT", "SIGTERM", "SIGKILL"], default="SIGINT")
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="leave out so many of the seed's moments")
    parser.add_argument("--seed", type=int, default=2544)
    parser.add_argument("--latest", type=float, default=9.0, help="moments are from 0 to so many seconds")
    parser.add_argument("--results", type=Path, required=True)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    moments = [chance.uniform(0.0, given.latest) for _ in range(given.first + given.count)]
    planned = [(list(SUITES)[number % len(SUITES)], moment_s) for number, moment_s in enumerate(moments)]
    base = Path(f"/run/nfvperf-stops-{os.getpid()}")
    base.mkdir()
    stops = []
    for number, (suite, moment_s) in enumerate(planned[given.first :], given.first):
        results = given.results / f"{given.by}-{given.seed}-{number}"
        stop = interrupt(suite, given.by, moment_s, base, results)
        stops.append(stop)
        results.mkdir(parents=True, exist_ok=True)
        (results / "output.txt").write_text(stop.output)
        print(f"{number:2}: {stop}", flush=True)
    print(f"longest: {max(stop.ended_s or 0 for stop in stops):.2f} s until the end")
    for lock in base.glob("*.lock"):
        lock.unlink()
    base.rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
