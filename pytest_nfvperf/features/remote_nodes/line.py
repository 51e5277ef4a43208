"""The line to another machine: one request at a time over execnet and ssh.

If the line ends, the error has ssh's own words, and the far end removes what it made.
"""

from __future__ import annotations

import pickle
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_nfvperf import __version__
from pytest_nfvperf.adapters.process.process import completed, tail
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.features.remote_nodes.server import ALIVE, LEASE_S
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, NfvperfError, TestbedError, UnavailableError
from pytest_nfvperf.model.testbed.testbed import RemoteHost

ANSWER_S = 60.0
"""Longer than any request takes, DPDK's start included."""

_PROBE_S = 30.0
_END_S, _LAST_LOOK_S = 20.0, 1.0
_OPTIONS = ("-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5", "-oServerAliveCountMax=3")
"""Ask for no password; notice within 15 s that the other end is gone."""

_SERVE = "from pytest_nfvperf.features.remote_nodes.server import serve\nserve(channel)\n"
_PROBE = "from pytest_nfvperf import __version__; print(__version__)"
_NO_WORDS = "without a word of ssh's: the far end's Python was ended (by the kernel, out of memory?), or ssh was"
_SSH_FAILED = 255
_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def check_version(node: str, host: RemoteHost) -> None:
    """Raise ConfigError if the host cannot be reached, or has another version of this package."""
    config = ["-F", host.ssh_config] if host.ssh_config else []
    command = ["ssh", *config, *_OPTIONS, host.ssh, shlex.join([host.python, "-c", _PROBE])]
    try:
        done = completed(command, _PROBE_S, stdin="")
    except FileNotFoundError as error:
        raise ConfigError(not_installed("ssh"), key=f"nodes.{node}.ssh") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{host} did not answer within {_PROBE_S:g} s", key=f"nodes.{node}.ssh") from error
    stderr = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if done.returncode == _SSH_FAILED:
        by_hand = shlex.join(["ssh", *config, host.ssh, "true"])
        raise ConfigError(
            f"cannot reach {host}: {stderr}; try `{by_hand}`: an sshd must run there, and take a key of yours without "
            "asking for a password",
            key=f"nodes.{node}.ssh",
        )
    if done.returncode != 0:
        raise ConfigError(
            f"{host.python} on {host} has no pytest-nfvperf: {stderr}; install {__version__} there, and name its "
            "interpreter by 'python'",
            key=f"nodes.{node}.python",
        )
    there = done.stdout.strip()
    if there != __version__:
        raise ConfigError(
            f"pytest-nfvperf is {there} on {host}, and {__version__} here: both ends must be the same. Install "
            f"{__version__} there ({host.python} -m pip install --find-links DIR pytest-nfvperf=={__version__}, where "
            "DIR has the wheel), or name another interpreter by 'python'",
            key=f"nodes.{node}.python",
        )


class NodeLine:
    """An open line to a host whose version was checked.

    Args:
        host: the other end.
        log: gets what ssh writes.
        started: called with the pid of ssh.

    Raises:
        TestbedError: ssh ended, with its words.
    """

    def __init__(self, host: RemoteHost, log: Path, started: Callable[[int], None] = lambda _: None) -> None:
        import execnet  # noqa: PLC0415 - of the extra "ssh", which only nodes on other machines need

        self._host = host
        self._log = log
        self._group = execnet.Group()
        self._error: TestbedError | None = None
        self._requesting = threading.Lock()
        self._sending = threading.Lock()
        self._requests = 0
        self._ended = threading.Event()
        log.touch()
        config = f"//ssh_config={host.ssh_config}" if host.ssh_config else ""
        options = " ".join((*_OPTIONS, "-oLogLevel=INFO", f"-E{log}"))
        # A child that starts while these are blocked ignores them: Ctrl-C is for pytest, which ends ssh in order.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL_SIGNALS)
        try:
            gateway = self._group.makegateway(f"ssh={options} {host.ssh}{config}//python={host.python}")
        except (execnet.HostNotFound, EOFError, OSError) as error:
            raise TestbedError(f"cannot connect to {host}: {tail(log) or error}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        log.write_text("", encoding="utf-8")  # the greeting explains no later error; ssh appends
        started(gateway._io.popen.pid)  # type: ignore[attr-defined]  # execnet has no public way to it
        try:
            self._channel = gateway.remote_exec(_SERVE)
        except OSError as error:
            self.close()
            raise self._connection_lost() from error
        threading.Thread(target=self._stay_alive, name=f"alive {host}", daemon=True).start()

    @property
    def lost(self) -> bool:
        """True once the line has ended by itself."""
        return self._error is not None

    def ask(self, method: str, *arguments: object, deadline_s: float = ANSWER_S) -> Any:
        """Call a method of ``RemoteNode``, and return its answer; errors as of ``ask_timed``."""
        return self.ask_timed(method, *arguments, deadline_s=deadline_s)[0]

    def ask_timed(self, method: str, *arguments: object, deadline_s: float = ANSWER_S) -> tuple[Any, int]:
        """The answer to a call of a method of ``RemoteNode``, and when it left the far end.

        That time, in ns, is by this machine's monotonic clock: half a round trip before the answer arrived.

        Raises:
            ConfigError, UnavailableError, TestbedError: as raised there.
            TestbedError: the line ended, with ssh's words; or there was no answer within ``deadline_s``.
        """
        with self._requesting:
            if self._error is not None:
                raise self._error
            began = time.monotonic_ns()
            answer = self._exchange(method, arguments, deadline_s)
        now = time.monotonic_ns()
        if answer[0] != "ok":
            raise _raised_there(*answer[1:])
        _, value, took_ns = answer
        return value, now - max(0, now - began - took_ns) // 2

    def _exchange(self, method: str, arguments: tuple[object, ...], deadline_s: float) -> tuple[Any, ...]:
        self._requests += 1
        number = self._requests
        try:
            with self._sending:
                self._channel.send(pickle.dumps((number, method, arguments), protocol=4))
            while True:
                try:
                    of, *answer = self._channel.receive(deadline_s)
                except self._channel.TimeoutError:  # it may have come while this process was stopped
                    of, *answer = self._channel.receive(_LAST_LOOK_S)
                if of == number:  # others answer requests that were interrupted
                    return tuple(answer)
        except self._channel.TimeoutError as error:
            raise self._end(f"{self._host} did not answer {method!r} within {deadline_s:g} s") from error
        except self._channel.RemoteError as error:
            self._group.terminate(timeout=_END_S)
            raise self._end(f"the far end on {self._host} failed: {str(error).strip().splitlines()[-1]}") from error
        except (EOFError, OSError) as error:
            raise self._connection_lost() from error

    def close(self) -> None:
        """End the line, and wait until the far end has ended."""
        self._ended.set()
        self._group.terminate(timeout=_END_S)

    def _stay_alive(self) -> None:
        while not self._ended.wait(LEASE_S / 6):
            with self._sending, suppress(OSError):  # the next request reports the error
                self._channel.send(ALIVE)

    def _connection_lost(self) -> TestbedError:
        self._group.terminate(timeout=_END_S)  # ssh's log is complete once ssh has ended
        why = (tail(self._log).splitlines() or [_NO_WORDS])[-1]
        return self._end(f"the connection to {self._host} ended: {why}")

    def _end(self, why: str) -> TestbedError:
        self._ended.set()
        words = tail(self._log)
        self._error = TestbedError(
            f"{why}; the far end removes by itself what it made (if it was killed, `nfvperf clean` there does)",
            evidence={"ssh": words} if words else {},
        )
        return self._error


def _raised_there(kind: str, message: str, evidence: dict[str, str], key: str | None) -> NfvperfError:
    if kind == "ConfigError":
        return ConfigError(message, key=key)
    if kind == "UnavailableError":
        return UnavailableError(message)
    made: type[TestbedError] = DeadlineError if kind == "DeadlineError" else TestbedError
    return made(message, evidence=evidence)
