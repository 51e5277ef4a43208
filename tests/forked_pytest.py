"""Runs of pytest in pytest, and of ``nfvperf``: forks of one interpreter a worker, which has imported the plugin.

An interpreter of its own spends most of such a run on imports. A fork has them, and is otherwise as much a process of
its own: its directory, environment, output, signals and exit status. Tests of what is imported when take an
interpreter of their own: ``pytest.mark.own_interpreter``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO

import pytest
from _pytest.config import _console_main
from contexts import VARIABLE, switch_context, without_context

_CONFTEST = 'pytest_plugins = ["pytest_nfvperf.fixtures.all"]\n'
_LATER = (
    "MLRsearch",
    "numpy",
    "pydantic",
    "pytest_nfvperf.cli.main",
    "pytest_nfvperf.config.testbed_file",
    "pytest_nfvperf.features.allure.sink",
    "pytest_nfvperf.session.run",
    "pytest_nfvperf.session.run_report",
    "rich.console",
    "yaml",
)
"""What runs import after collection: each of them would, again."""

_MOST_BYTES = 1 << 20


def _command() -> int:
    from pytest_nfvperf.cli.main import main  # pytest imports what it rewrites before others do

    return main()


MAINS: dict[str, tuple[str, Callable[[], int]]] = {
    "pytest": (str(Path(pytest.__file__).with_name("__main__.py")), _console_main),
    "pytest_nfvperf.cli.main": ("nfvperf", _command),
}
"""What can be begun: its ``sys.argv[0]`` and its function."""


class ForkServer:
    """The interpreter that is forked, as its client sees it."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._server = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=without_context(os.environ)
            )

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ours.close()
        self._server.wait(timeout=30)

    def begin(self, module: str, arguments: Sequence[str], stdout: IO[str], stderr: IO[str]) -> ForkedPytest:
        """Begin ``python -m MODULE`` in the current directory and environment, which is first in its path.

        ``module``: a key of ``MAINS``.
        """
        here = str(Path.cwd())
        path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
        asked = {"module": module, "arguments": list(arguments), "directory": here}
        asked["environment"] = {**os.environ, "PYTHONPATH": path}
        socket.send_fds(self._ours, [json.dumps(asked).encode()], [stdout.fileno(), stderr.fileno()])
        return ForkedPytest(self._ours, int(self._ours.recv(_MOST_BYTES)))


class ForkedPytest:
    """One run, with as much of ``Popen`` as pytester uses."""

    stdin = None

    def __init__(self, server: socket.socket, pid: int) -> None:
        self._server = server
        self.pid = pid

    def wait(self, timeout: float | None = None) -> int:
        """The exit status; minus the signal's number where one ended it."""
        self._server.settimeout(timeout)
        try:
            return int(self._server.recv(_MOST_BYTES))
        except TimeoutError:
            raise subprocess.TimeoutExpired("pytest", timeout or 0.0) from None
        finally:
            self._server.settimeout(None)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def serve(client: socket.socket) -> int:
    """Fork for each request, one after the other, until the client closes; the exit status of this process."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(client, _MOST_BYTES, 2)
        if not message:
            return 0
        pid = os.fork()
        if pid == 0:
            client.close()
            return _run(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        client.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        client.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run(asked: dict[str, object], stdout: int, stderr: int) -> int:
    """As ``python -m pytest`` would, whose path begins with the current directory."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(str(asked["directory"]))
    os.environ.clear()
    os.environ.update(asked["environment"])  # type: ignore[call-overload]
    switch_context(os.environ.get(VARIABLE, ""))
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.close(stdout)
    os.close(stderr)
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8")  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(open(2, "wb", closefd=False), encoding="utf-8", line_buffering=True)  # noqa: SIM115
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    file, main = MAINS[str(asked["module"])]
    sys.argv = [file, *asked["arguments"]]  # type: ignore[misc]
    return main()


def _import_all() -> None:
    """What every run imports, by pytest itself where it rewrites the assertions of what it imports."""
    with TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        Path(folder, "conftest.py").write_text(_CONFTEST)
        pytest.main(
            ["--collect-only", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--rootdir", folder, folder]
        )
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(folder):
                del sys.modules[name]
    for name in _LATER:
        importlib.import_module(name)
    _make_parts_of_reports()
    gc.collect()
    gc.freeze()


def _make_parts_of_reports() -> None:
    """Compile the templates, which are the same in every report."""
    from pytest_nfvperf.adapters.report import page_parts

    for name in page_parts.environment().list_templates(extensions=["html"]):
        page_parts.environment().get_template(name)


if __name__ == "__main__":
    for of_worker in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[of_worker]  # the interpreter is of no test and of no worker; each fork gets its own environment
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's: forks have no other thread than the one that forks
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who presses Ctrl-C means the tests
    sys.path.pop(0)  # this file's folder
    _import_all()
    if len(threads := list(Path("/proc/self/task").iterdir())) > 1:
        sys.exit(f"what was imported runs {len(threads) - 1} threads, which no fork would have")
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        sys.exit(serve(connection))
