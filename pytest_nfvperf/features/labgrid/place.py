"""A labgrid place as a testbed: acquired for a run, and released after it."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest_nfvperf
from pytest_nfvperf.adapters.process.process import completed
from pytest_nfvperf.model.errors import ConfigError, TestbedError

CLIENT = "labgrid-client"
WAITING, PLACE, REFUSED = "waiting", "place", "refused"
"""Keys of the holder's lines: it waits for a place; it has this one; it cannot get one, and why."""

_MODULE = "pytest_nfvperf.features.labgrid.place"
_TOKEN = re.compile(r"LG_TOKEN=(\w+)")
_CALL_S, _RELEASE_S = 30.0, 70.0
"""A call of labgrid's client, and the two calls that release a place."""


def main(client: str, filters: Sequence[str]) -> None:
    """Hold a place of a labgrid coordinator until the parent process ends, also by kill -9.

    Reserve a place with these tags, wait for its turn, acquire it, and write its name as a line of JSON. Release it at
    the end of standard input. This calls labgrid's client; labgrid's own pytest plugin is never loaded.
    """
    token = place = ""
    try:
        found = _TOKEN.search(_call(client, "reserve", "--shell", *filters))
        if found is None:
            raise TestbedError("its client printed no token of the reservation")
        token = found[1]
        if not _wait(client, token):
            return
        place = _call(client, "-p", f"+{token}", "acquire").split()[-1]
        _report(PLACE, place)
        _input_ended(None)
    except (TestbedError, subprocess.TimeoutExpired, OSError) as error:
        _report(REFUSED, str(error))
    finally:
        if place:
            _call(client, "-p", place, "release")
        if token:
            _call(client, "cancel-reservation", token)


def _wait(client: str, token: str) -> bool:
    """Wait until the reservation has a place; False if the parent ends before."""
    with subprocess.Popen([client, "wait", token], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as waiting:
        reported = False
        while waiting.poll() is None:
            if _input_ended(1.0):
                waiting.kill()
                return False
            if not reported and waiting.poll() is None:
                reported = True
                _report(WAITING, token)
        if waiting.returncode != 0:
            stderr = waiting.stderr.read().decode(errors="replace") if waiting.stderr else ""
            raise TestbedError(stderr.strip())
    return True


def _input_ended(timeout_s: float | None) -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], timeout_s)  # the parent writes nothing
    return bool(ready)


def _call(client: str, *words: str) -> str:
    done = completed([client, *words], _CALL_S, stdin="")
    if done.returncode != 0:
        raise TestbedError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def _report(word: str, text: str) -> None:
    try:
        print(json.dumps({word: text}), flush=True)
    except BrokenPipeError:
        return  # the parent is gone: its input has ended, too


class PlaceLease:
    """The lease of a place: requested, then held until ``close()`` or the end of this process, however it ends.

    Args:
        tags: that the place must have, "nic=cx6,speed=100g"; ``name=rack-a`` is a place by its name.

    Attributes:
        waits: no place is free; the request is in the coordinator's queue.

    Raises:
        ConfigError: labgrid's client is not installed.
    """

    def __init__(self, tags: str) -> None:
        installed = Path(sys.executable).with_name(CLIENT)
        client = shutil.which(CLIENT) or (str(installed) if installed.is_file() else None)
        if client is None:
            raise ConfigError(
                f"a place of labgrid needs {CLIENT}, which is not on the PATH: install labgrid in an environment of "
                "its own, for example by `pipx install labgrid` (docs/how-to/several-testbeds.md)"
            )
        package = Path(pytest_nfvperf.__file__).parents[1]
        path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
        self.tags, self.waits = tags, False
        self._place = ""
        self._holder = subprocess.Popen(
            [sys.executable, "-m", _MODULE, client, *tags.split(",")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C must only reach pytest, which closes this after its tests
        )

    def poll(self) -> str:
        """The name of the place, "" while there is none yet; ConfigError if there cannot be one."""
        out = self._holder.stdout
        while not self._place and out is not None and select.select([out], [], [], 0)[0]:
            line = out.readline()
            if not line:
                raise ConfigError(f"labgrid: the process that holds a place with {self.tags} has ended")
            report = json.loads(line)
            if REFUSED in report:
                raise ConfigError(f"labgrid leases no place with {self.tags}: {report[REFUSED]}")
            self.waits = WAITING in report
            self._place = report.get(PLACE, "")
        return self._place

    def close(self) -> None:
        """Release it, or leave the queue. Can be called twice."""
        if self._holder.stdin is not None and not self._holder.stdin.closed:
            self._holder.stdin.close()
            try:
                self._holder.wait(_RELEASE_S)
            except subprocess.TimeoutExpired as error:
                self._holder.kill()
                self._holder.wait()
                raise TestbedError(
                    f"labgrid did not take place {self._place or self.tags} back within {_RELEASE_S:g} s: release it "
                    f"by `{CLIENT} -p {self._place or 'PLACE'} release`"
                ) from error
            finally:
                if self._holder.stdout is not None:
                    self._holder.stdout.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
