"""One run of pytest in a child, read back from its evidence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_nfvperf.adapters.bisecting.child import run_child
from pytest_nfvperf.adapters.evidence.reader import PATTERN, conclude, read_run
from pytest_nfvperf.adapters.process.process import tail
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.conclusion import RunConclusion

OUTPUT = "output.txt"
NO_PAGE = ("--nfv-report", "none")
"""A bisection has a page of its own; `nfvperf report` makes that of a single run."""


def run_tests(arguments: Sequence[str], results: Path) -> RunConclusion:
    """Run pytest, and say what became of the run.

    Args:
        arguments: of pytest.
        results: a new directory, for this run alone; its output goes there, too.

    Raises:
        ConfigError: pytest refused the arguments, or measured nothing, so that there is no evidence.
        TestbedError: it cannot be started.
    """
    results.mkdir(parents=True)
    output = results / OUTPUT
    argv = [sys.executable, "-m", "pytest", *arguments, *NO_PAGE, "--nfv-results", str(results)]
    status = run_child(argv, output)
    found = sorted({path.parent.resolve() for path in results.glob(f"*/{PATTERN}")})
    if not found:
        raise ConfigError(
            f"pytest ended with status {status} and left no evidence: nothing was selected that measures, or an option "
            f"cannot be used. It said:\n{tail(output)}"
        )
    return conclude(read_run(found[0]))
