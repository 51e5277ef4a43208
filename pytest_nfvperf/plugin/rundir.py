"""Where a run's results go: one directory a run, and ``latest`` pointing at the newest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.session.options import Options

RUN_DIR_KEY = pytest.StashKey[Path]()
LATEST = "latest"


def run_directory(config: pytest.Config, options: Options) -> Path:
    """This run's directory; made only when something is written to it."""
    if RUN_DIR_KEY not in config.stash:
        given = _given(getattr(config, "workerinput", {}), options)
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        config.stash[RUN_DIR_KEY] = given or options.resume or options.results / f"{stamp}-{os.getpid()}"
    return config.stash[RUN_DIR_KEY]


def _given(workerinput: Mapping[str, Any], options: Options) -> Path | None:
    """Of a worker: its controller's directory. One on another machine has a directory of its own, of the same name."""
    if "nfv_run_dir" not in workerinput:
        return None
    run_dir = Path(workerinput["nfv_run_dir"])
    if not workerinput.get("nfv_far"):
        return run_dir
    return options.results / f"of-{workerinput['workerid']}" / run_dir.name


def point_latest(run_dir: Path) -> None:
    """Let ``latest`` beside the run directory point at it, atomically; ConfigError where that cannot be."""
    link = run_dir.parent / LATEST
    fresh = run_dir.parent / f".{LATEST}-{os.getpid()}"
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(run_dir.name)
        fresh.replace(link)
    except OSError as error:
        raise ConfigError(
            f"{link} cannot point at this run: {error.strerror}. Free space, or choose another place (--nfv-results)"
        ) from error
