"""A lease of a place of a labgrid coordinator, by its tags."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest_nfvperf
from pytest_nfvperf.adapters.labgrid.holder import PLACE, REFUSED, WAITING
from pytest_nfvperf.model.errors import ConfigError

CLIENT = "labgrid-client"
_MODULE = "pytest_nfvperf.adapters.labgrid.holder"
_RELEASE_S = 60.0


class PlaceLease:
    """A place that is wanted, then held, until ``close()`` or the end of this process, however it ends.

    Args:
        tags: that the place must have, "nic=cx6,speed=100g"; ``name=rack-a`` is a place by its name.

    Attributes:
        waits: the coordinator has none that is free: this one is in its queue.

    Raises:
        ConfigError: labgrid's client is not installed.
    """

    def __init__(self, tags: str) -> None:
        client = _client()
        package = Path(pytest_nfvperf.__file__).parents[1]
        path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
        self.tags, self.waits = tags, False
        self._place = ""
        self._holder = subprocess.Popen(
            [sys.executable, "-m", _MODULE, client, *tags.split(",")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for pytest, which closes this after its tests
        )

    def poll(self) -> str:
        """The name of the place, "" as long as there is none yet; ConfigError where there cannot be one."""
        out = self._holder.stdout
        while not self._place and out is not None and select.select([out], [], [], 0)[0]:
            line = out.readline()
            if not line:
                raise ConfigError(f"labgrid: the process that holds a place with {self.tags} has ended")
            told = json.loads(line)
            if REFUSED in told:
                raise ConfigError(f"labgrid leases no place with {self.tags}: {told[REFUSED]}")
            self.waits = WAITING in told
            self._place = told.get(PLACE, "")
        return self._place

    def close(self) -> None:
        """Release it, or leave the queue. Can be called twice."""
        if self._holder.stdin is not None and not self._holder.stdin.closed:
            self._holder.stdin.close()
            self._holder.wait(_RELEASE_S)
        if self._holder.stdout is not None:
            self._holder.stdout.close()


def _client() -> str:
    beside = Path(sys.executable).with_name(CLIENT)
    found = shutil.which(CLIENT) or (str(beside) if beside.is_file() else None)
    if found is None:
        raise ConfigError(
            f"a place of labgrid needs {CLIENT}, which is not on the PATH: install labgrid in an environment of its "
            "own, for example by `pipx install labgrid` (docs/scaling.md)"
        )
    return found
