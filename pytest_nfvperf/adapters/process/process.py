"""Child processes that cannot outlive the run: journaled, tagged, killed with their parent.

The command is wrapped by argument lists only::

    setpriv --pdeathsig KILL nsenter --net=/run/netns/NAME taskset -c CPUS COMMAND...

Each program replaces itself by the next, so the pid that we know is the command's own. ``setpriv`` rather than a
``preexec_fn``: Python code between fork and exec may deadlock once threads run. The parent-death signal follows the
*thread* that spawned (prctl(2)): spawn from a thread that lives as long as the run. Each child has a process group of
its own: Ctrl-C at the terminal is for pytest, which then ends its children in its own order.

Also here: ``wait_until``, which waits for an observed state with a deadline, and the handling of signals: Ctrl-C and
SIGTERM end a long run in good order; a terminal that closes does not end it. Signal dispositions belong to the process
(signal(7)) and are restored afterwards. Python sets handlers in the main thread only; elsewhere signals keep their
effect.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple, TypeVar

from pytest_nfvperf.adapters.process.journal import TAG_VARIABLE, Entry, Journal, Kind, note_process
from pytest_nfvperf.adapters.process.programs import absent, not_installed
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.ports.machine import Signals

T = TypeVar("T")
_ASKING = (signal.SIGINT, signal.SIGTERM)
_HELD = (*_ASKING, signal.SIGHUP, signal.SIGALRM)
NETNS_DIRECTORY = Path("/run/netns")
_LOG_TAIL_LINES = 20
_FREEZE_DEADLINE_S = 2.0
_FREEZE_LOOK_S = 0.0005
_LOOK_S, _STOPPED_S = 1.0, 0.5  # a look that takes that much longer than it may is of a process that was stopped
_NOT_FOUND = 127
"""The status of env(1), nsenter(1) and the like when there is no such command."""
_GIT_VARIABLES = re.compile(
    r"(?!GIT_)|GIT_(AUTHOR_|COMMITTER_|SSH|ASKPASS|TERMINAL_PROMPT|PROXY_|SSL_|HTTP_|ALLOW_PROTOCOL|PROTOCOL_FROM_USER)"
    r"|GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)"
)
_GIT_SETTING = re.compile(
    r"(?i)(safe|url|https?|credential|protocol|ssh|user|author|committer)\.|core\.(sshcommand|askpass|gitproxy)$"
)
"""Of git's environment and of GIT_CONFIG_COUNT: who commits, and how other machines are reached."""
_DPDK_RUNTIME = "RUNTIME_DIRECTORY"
"""Environment variable for the place where DPDK makes its directory ``dpdk/<file prefix>``, even with --in-memory, and
leaves it behind when killed; without the variable that is in /var/run/dpdk."""


class Deadline:
    """How long a wait may take, without the time in which this process was stopped: Ctrl-Z, a frozen container.

    An answer may have come meanwhile, and whoever owes it may have been frozen, too.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def look(self, wait: Callable[[float], T], most_s: float = _LOOK_S) -> T:
        """Wait a part of the time by ``wait(seconds)``, and return what that does."""
        began, seconds = time.monotonic(), min(self.left_s, most_s)
        seen = wait(seconds)
        if (took_s := time.monotonic() - began) > seconds + _STOPPED_S:
            self._end += took_s
        return seen

    def wait_ready(self, descriptor: int, events: int = select.POLLIN) -> bool:
        """Wait until a descriptor can be read (or as ``events`` says); False if it cannot be by the deadline."""
        poller = select.poll()
        poller.register(descriptor, events)
        while not self.look(lambda seconds: poller.poll(1000 * seconds)):
            if not self.left_s:
                return bool(poller.poll(0))
        return True


def wait_until(
    probe: Callable[[], T | None],
    awaited: str,
    deadline_s: float,
    *,
    interval_s: float = 0.01,
    last_seen: Callable[[], str] | None = None,
) -> T:
    """Probe until the result is true, and return that.

    Args:
        probe: observes the state; falsy (None, False, empty) means not yet. It may raise to end the wait.
        awaited: the state in words: "ovsdb-server's socket".
        deadline_s: seconds until it gives up.
        interval_s: seconds between probes.
        last_seen: what was observed instead, for the error; by default the probe's last value.

    Raises:
        DeadlineError: what was awaited, for how long, and what was last seen.
    """
    deadline = Deadline(deadline_s)
    while True:
        late = not deadline.left_s
        seen = probe()
        if seen:
            return seen
        if late:
            shown = last_seen() if last_seen is not None else repr(seen)
            raise DeadlineError(f"waited {deadline_s:g} s for {awaited}; last seen: {shown}")
        deadline.look(time.sleep, interval_s)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer signals that could interrupt a short step half way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deferred: list[int] = []
    held = [number for number in _HELD if signal.getsignal(number) is not signal.SIG_IGN]  # children inherit that
    before = {number: signal.signal(number, lambda number, _: deferred.append(number)) for number in held}
    try:
        yield
    finally:
        for held_one, handler in before.items():
            signal.signal(held_one, handler if handler is not None else signal.SIG_DFL)
        for number in deferred:
            signal.raise_signal(number)


class Interrupts(Signals):
    """A context within which signals are noted instead of ending the process.

    Args:
        terminal_log: where output goes once the terminal is gone.
        on_signal: receives the name of each signal that requests the end, at once.

    Attributes:
        hung_up: the terminal was closed.

    A second Ctrl-C raises KeyboardInterrupt at once.
    """

    def __init__(self, terminal_log: Path, on_signal: Callable[[str], None] = lambda _: None) -> None:
        super().__init__()
        self._on_signal = on_signal
        self.hung_up = False
        self._terminal_log = terminal_log
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _ASKING:
                self._before[number] = signal.signal(number, self._ask)
            self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the handlers. A terminal that hung up stays gone: SIGHUP is ignored from now on."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if number is signal.SIGHUP and self.hung_up else handler)
        self._before.clear()

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is signal()'s
        first, self.asked = not self.asked, self.asked or signal.Signals(number).name
        self._on_signal(signal.Signals(number).name)
        if first:
            self.stop()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    def _hang_up(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is signal()'s
        self.hung_up = True
        leave_terminal(self._terminal_log)


def leave_terminal(log: Path) -> None:
    """Redirect all descriptors of a terminal to a file: a terminal that is gone answers with EIO.

    All of them, because a capturing pytest has duplicates.
    """
    target = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        for entry in list(Path("/proc/self/fd").iterdir()):
            with suppress(OSError):  # the directory's own descriptor is closed by now
                # By name: a terminal that hung up no longer identifies as one.
                if str(entry.readlink()).startswith(("/dev/pts/", "/dev/tty")):
                    os.dup2(target, int(entry.name), inheritable=int(entry.name) < 3)
    finally:
        os.close(target)


class Child(subprocess.Popen[bytes]):
    """As ``subprocess.Popen``, but kills and reaps a running child whose last reference is gone.

    A signal that stops the run may come between a child's start and the moment at which its object is stored. Python
    would warn later that it is still running, which pytest may take for an error of the run.
    """

    def __del__(self) -> None:
        started = getattr(self, "pid", None) is not None  # False if the program could not be executed
        if started and self.returncode is None:
            for stream in (self.stdin, self.stdout, self.stderr):
                if stream is not None:
                    stream.close()
            self.kill()
            self.wait()
        super().__del__()


class SchedStat(NamedTuple):
    """A thread's times since its begin.

    Attributes:
        ran_ns: how long it ran on a CPU, ns.
        waited_ns: how long it could have run and waited for its CPU, ns, without what a hypervisor took.
        turns: how often it was put on a CPU.
    """

    ran_ns: int
    waited_ns: int
    turns: int


def read_schedstat(task: Path) -> SchedStat:
    """The scheduler's counts of a thread.

    ``task`` is its folder under /proc; a process's own folder is that of its main thread. OSError if the thread has
    ended, or the kernel does not count (no CONFIG_SCHED_INFO).
    """
    ran_ns, waited_ns, turns = (task / "schedstat").read_text(encoding="ascii").split()
    return SchedStat(int(ran_ns), int(waited_ns), int(turns))


def plain_environment() -> dict[str, str]:
    """Our environment with the locale C, so that programs print the same for every user, and of no repository.

    apt prints "Hängt ab von:" in German, and numbers have a comma there. LANGUAGE counts unless the locale is "C"
    (gettext's manual), so "C.UTF-8" would not do.
    """
    ours = without_repository(os.environ)
    return {name: value for name, value in ours.items() if name != "LANGUAGE"} | {"LC_ALL": "C"}


def without_repository(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without the repository that git names to hooks, aliases, `bisect run` and `rebase --exec`.

    GIT_DIR and its siblings, and settings such as core.worktree, overrule the directory that we give to git.
    """
    variables = {name: value for name, value in environment.items() if _GIT_VARIABLES.match(name)}
    count = environment.get("GIT_CONFIG_COUNT", "")
    numbers = range(int(count) if count.isdecimal() else 0)
    settings = [[environment.get(f"GIT_CONFIG_{part}_{number}", "") for part in ("KEY", "VALUE")] for number in numbers]
    for number, (key, value) in enumerate(setting for setting in settings if _GIT_SETTING.match(setting[0])):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        variables["GIT_CONFIG_COUNT"] = str(number + 1)
    return variables


def with_this_package() -> dict[str, str]:
    """The variable by which a child's Python finds this package, as this one does."""
    package = str(Path(__file__).parents[3])
    return {"PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))}


def wall_offset_ns() -> int:
    """Wall clock minus monotonic clock; it changes where somebody sets the clock."""
    return time.time_ns() - time.monotonic_ns()


class ManagedProcess:
    """A running child; ``stop()`` leaves no process behind."""

    def __init__(self, popen: subprocess.Popen[bytes], name: str, log: Path, journal: Journal, entry: Entry) -> None:
        self.popen = popen
        self.name = name
        self.log = log
        self._journal = journal
        self._entry = entry

    @property
    def pid(self) -> int:
        return self.popen.pid

    def running(self) -> bool:
        return self.popen.poll() is None

    def log_tail(self, lines: int = _LOG_TAIL_LINES) -> str:
        return tail(self.log, lines)

    def state(self) -> str:
        return process_state(self.pid)

    def check(self) -> None:
        """TestbedError with the exit status and the end of the log if it has ended."""
        status = self.popen.poll()
        if status is not None:
            raise TestbedError(
                f"{self.name} (pid {self.pid}) {describe_exit(status)}", evidence={f"{self.log.name}": self.log_tail()}
            )

    def freeze(self) -> None:
        """SIGSTOP, and wait until it has stopped; TestbedError if it has ended. A frozen child ends with its parent."""
        self.check()
        self.popen.send_signal(signal.SIGSTOP)
        wait_until(
            lambda: self.state()[:1] == "T",
            f"{self.name} (pid {self.pid}) to stop on SIGSTOP",
            _FREEZE_DEADLINE_S,
            interval_s=_FREEZE_LOOK_S,
            last_seen=self.state,
        )

    def thaw(self) -> None:
        """SIGCONT; has no effect on a process that is not frozen, or has ended."""
        self.popen.send_signal(signal.SIGCONT)

    def stop(self, deadline_s: float = 5.0) -> None:
        """SIGTERM, then SIGKILL after the deadline; reap and forget it. Can be called twice."""
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                stream.close()
        if self.popen.poll() is None:
            self.popen.terminate()
            self.thaw()  # a frozen process would not handle SIGTERM
            try:
                self.popen.wait(deadline_s)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        self._journal.forget(self._entry)

    def kill(self) -> None:
        self.popen.kill()
        self.stop()


def spawn(  # noqa: PLR0913 - as many as subprocess.Popen has, named
    journal: Journal,
    name: str,
    argv: Sequence[str | os.PathLike[str]],
    *,
    log: Path,
    cpus: Sequence[int] = (),
    netns: str | None = None,
    env: Mapping[str, str] | None = None,
    pipes: bool = False,
    output: Path | None = None,
    nice: int | None = None,
) -> ManagedProcess:
    """Start a child of this run.

    Args:
        journal: notes it before it starts.
        name: for messages: "ovs-vswitchd".
        argv: the command, as a list.
        log: for standard error, and for standard output unless that is a pipe.
        cpus: CPUs it may run on; empty: those of this process.
        netns: named network namespace it runs in.
        env: variables added to ours.
        pipes: standard input and output are pipes; otherwise there is no input, and output goes to the log.
        output: a separate file for standard output, overwritten.
        nice: the child gets a session of its own with this priority; None: our session.

    Raises:
        TestbedError: it could not be started.
    """
    wrappers = ["setpriv", "--pdeathsig", "KILL"]
    wrappers += ["nsenter", f"--net={NETNS_DIRECTORY / netns}"] if netns is not None else []
    wrappers += ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
    command = [*wrappers, *(os.fspath(part) for part in argv)]
    added = {_DPDK_RUNTIME: str(journal.directory), **(env or {}), TAG_VARIABLE: journal.tag}
    entry = journal.note(Kind.PROCESS, name, argv0=os.fspath(argv[0]))
    try:
        with (
            deferred_signals(),
            log.open("ab") as sink,
            output.open("wb") if output is not None else nullcontext(sink) as out,
        ):
            popen = Child(
                command,
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else out,
                stderr=sink,
                env=plain_environment() | added,
                start_new_session=nice is not None,
                process_group=0 if nice is None else None,
            )
            note_process(journal, entry, popen.pid)
    except OSError as error:
        journal.forget(entry)
        raise TestbedError(f"cannot start {name}: {error.strerror}: {error.filename}") from error
    if nice is not None:
        set_session_priority(popen.pid, nice)
    return ManagedProcess(popen, name, log, journal, entry)


def set_session_priority(pid: int, nice: int) -> bool:
    """Give the session of a process another priority; False if the kernel or our rights do not allow it.

    If sessions are scheduled as groups (sched(7), "The autogroup feature"), a thread's nice value counts only
    within its session; this one counts between sessions.
    """
    try:
        Path(f"/proc/{pid}/autogroup").write_text(f"{nice}\n", encoding="ascii")
    except OSError:
        return False
    return True


def completed(
    command: Sequence[str], deadline_s: float, stdin: str | None = None, nice: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a short command to its end, whatever its status; errors of subprocess.run. ``nice``: as of ``spawn``."""
    with subprocess.Popen(
        command,
        stdin=None if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=plain_environment(),
        start_new_session=nice is not None,
        process_group=0 if nice is None else None,
    ) as child:
        try:
            if nice is not None:
                set_session_priority(child.pid, nice)
            output, errors = child.communicate(stdin, deadline_s)
        except subprocess.TimeoutExpired:  # of a child that has ended, too, if this process was stopped meanwhile
            with suppress(subprocess.TimeoutExpired):
                output, errors = child.communicate(timeout=_LOOK_S)
            if child.returncode is None:
                raise
        finally:
            child.kill()
    return subprocess.CompletedProcess(command, child.returncode, output, errors)


def run(argv: Sequence[str | os.PathLike[str]], *, deadline_s: float = 10.0, stdin: str | None = None) -> str:
    """Run a short command and return its standard output; TestbedError if it failed, or did not end in time."""
    command = [os.fspath(part) for part in argv]
    try:
        done = completed(command, deadline_s, stdin)
    except FileNotFoundError as error:
        raise TestbedError(f"cannot run {command[0]}: not found; {not_installed(command[0])}") from error
    except subprocess.TimeoutExpired as error:
        raise TestbedError(f"{' '.join(command)} did not end within {deadline_s:g} s") from error
    if done.returncode != 0:
        lacking = absent(command) if done.returncode == _NOT_FOUND else None
        why = f": {not_installed(lacking)}" if lacking is not None else ""
        what = f"{' '.join(command)} {describe_exit(done.returncode)}{why}"
        raise TestbedError(what, evidence={"stderr": done.stderr})
    return done.stdout


def process_state(pid: int) -> str:
    """The kernel's state of a process (proc_pid_status(5)): "S (sleeping)", "T (stopped)"; "gone" if there is none."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("State:"):
                return line.removeprefix("State:").strip()
    return "gone"


def describe_exit(status: int) -> str:
    """A return code in words: "exited with status 1", "was killed by SIGKILL"."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"exited with status {status}"


def tail(path: Path, lines: int = _LOG_TAIL_LINES) -> str:
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"({path}: {error.strerror})"
