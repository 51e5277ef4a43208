"""Where a run's results go: one directory a run, and ``latest`` pointing at the newest."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.session.options import Options

RUN_DIR_KEY = pytest.StashKey[Path]()
LATEST = "latest"
WITHOUT_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""How a file system that has no symbolic links refuses one (symlink(2)): vfat and exfat, some network shares."""
NOT_LATEST = "the link to the latest run was not renewed"


def run_directory(config: pytest.Config, options: Options) -> Path:
    """This run's directory; made only when something is written to it."""
    if RUN_DIR_KEY not in config.stash:
        given = _given(getattr(config, "workerinput", {}), options)
        config.stash[RUN_DIR_KEY] = given or options.resume or _unused(options.results)
    return config.stash[RUN_DIR_KEY]


def _unused(results: Path) -> Path:
    """A directory that is not there yet: time and pid come again where the clock is set back, and in containers."""
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
    named = (results / (f"{name}-{number}" if number else name) for number in count())
    return next(path for path in named if not os.path.lexists(path))


def _given(workerinput: Mapping[str, Any], options: Options) -> Path | None:
    """Of a worker: its controller's directory. One on another machine has a directory of its own, of the same name."""
    if "nfv_run_dir" not in workerinput:
        return None
    run_dir = Path(workerinput["nfv_run_dir"])
    if not workerinput.get("nfv_far"):
        return run_dir
    return options.results / f"of-{workerinput['workerid']}" / run_dir.name


def point_latest(run_dir: Path) -> None:
    """Let ``latest`` beside the run directory point at it, atomically.

    Raises:
        ConfigError: something else has this name. It is not ours, and stays.
        OSError: the disk has no room, or the file system no links.
    """
    link = run_dir.parent / LATEST
    fresh = run_dir.parent / f".{LATEST}-{os.getpid()}"
    if link.exists() and not link.is_symlink():
        what = "a directory" if link.is_dir() else "a file"
        raise ConfigError(
            f"{link} is {what}, and no link of ours, so it stays as it is. Rename it; this run is {run_dir.name}"
        )
    try:
        try:
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(run_dir.name)
            fresh.replace(link)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror
        if error.errno in WITHOUT_LINKS and not os.path.lexists(link):
            why = f"the file system has no symbolic links ({why}); name the run itself: {run_dir}"
        raise OSError(error.errno, why, str(link)) from error
