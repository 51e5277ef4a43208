"""What the plugin costs those pytest runs of an environment that measure nothing."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.table import Figure
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.display import format_seconds

_ORDER = (False, True, True, False) * 6
_MOST_S = 0.05


def plugin_start() -> list[Figure]:
    """A B B A ...: collecting one test that does not measure, with the plugin and without."""
    with TemporaryDirectory() as directory:
        test = Path(directory, "test_nothing.py")
        test.write_text("def test_nothing(): pass\n")
        _collect(test, plugin=True)  # compiles what is not compiled yet
        took: dict[bool, list[float]] = {False: [], True: []}
        for plugin in _ORDER:
            took[plugin].append(_collect(test, plugin=plugin))
    best = {plugin: min(times) for plugin, times in took.items()}  # others on the machine only ever add to it
    more = best[True] - best[False]
    detail = f"best of {len(took[True])}: {format_seconds(best[True])} with the plugin, "
    detail += f"{format_seconds(best[False])} without; medians {format_seconds(median(took[True]))}, "
    detail += format_seconds(median(took[False]))
    return [
        Figure("CPU of pytest's start, with the plugin", f"{more * 1e3:+.0f} ms", "<= 50 ms", more <= _MOST_S, detail)
    ]


def _collect(test: Path, *, plugin: bool) -> float:
    """CPU seconds, which others on the machine change less than the time on a clock.

    Variables such as PYTHONDONTWRITEBYTECODE are ignored: users have compiled files.
    """
    without = [] if plugin else ["-p", "no:nfvperf"]
    command = [sys.executable, "-E", "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *without]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run([*command, "--rootdir", test.parent, test])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
