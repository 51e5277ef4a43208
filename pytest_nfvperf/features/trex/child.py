"""Starts the child process with the TRex client library that fits the server, and explains its refusals."""

from __future__ import annotations

import hashlib
import re
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.engine import Engine, EngineLink, EngineRefusedError, StartEngine
from pytest_nfvperf.adapters.process.journal import ProcessId, boot_id, pid_namespace
from pytest_nfvperf.adapters.process.process import deferred_signals, with_this_package
from pytest_nfvperf.model.errors import ConfigError, GeneratorError, NfvperfError
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec

CLIENT_PACKAGE = "lbr_trex_client"
"""Of PyPI's lbr-trex-client: the client library of a server's distribution, which speaks STL 5.1 (servers v3.x)."""

PYPI = ""
"""Stands for PyPI's trex-stl-lib, which speaks STL 4.1, the language of servers of 2019."""
USUAL_DIRECTORIES = (Path("/opt/trex"),)
MODULE = "pytest_nfvperf.features.trex.child_process"
PROTOCOL = 1
_NAME = re.compile(r"nfvperf-(?P<host>.+)-(?P<boot>[0-9a-f]{8})-(?P<pid>\d+)-(?P<ticks>\d+)")
"""The user name that owns our ports on a server. After a SIGKILL the client's traffic continues and its ports stay
taken. The name identifies the process that took them. If that process is gone, a later run may take its ports."""
_MACHINE_ID = Path("/etc/machine-id")
_HELLO_DEADLINE_S = 40.0
"""Importing the library takes some seconds, and the child gives up a frozen server after ten."""
_WRITE_CLIENT = "write 'client: DIRECTORY' of the server's own TRex distribution"
_WRONG_CLIENT = {"version_mismatch", "no_client"}
_REFUSALS = {
    "bad_port": "{server}: {text}; write numbers that it has",
    "no_client": f"{{text}}; {_WRITE_CLIENT} (the one with t-rex-64), or for servers v3.x and those of 2019: "
    "pip install 'pytest-nfvperf[trex]'",
    "version_mismatch": f"{{server}} and the client library do not fit: {{text}}; {_WRITE_CLIENT}",
    "unreachable": "{server} is not there: {text}; start it (./t-rex-64 -i in its directory), or correct "
    "generator.server and generator.trex.rpc_port in the testbed file",
    "port_taken": "{server}: {text}; release it there (trex-console, 'release'), wait for its owner, or write "
    "'force: true' in the generator section to take it all the same: their traffic is stopped then",
    "server_lost": "{server} stopped answering: {text}; look whether it still runs, and at its last output. Its ports "
    "may still be ours there: they are taken back at the next start",
    "unresolved": "{server}: {text}; nobody answered ARP: look at generator.trex.routes and at the DUT's address on "
    "that link, or leave the route out and give the traffic's MAC addresses",
    "refused": "{server} refused (ports {ports}): {text}",
}
"""What the child refuses, by its code: the server's words, and what to do."""
_MISTAKEN_KEYS = {
    "bad_port": "generator.ports",
    "no_client": "generator.client",
    "version_mismatch": "generator.client",
}
"""Keys of the testbed file that those refusals are about: the user's mistakes."""
_USER_MISTAKES = {
    "exceeds port line rate": "lower the load, or write the port's line_rate into the testbed file",
    "Failed allocating statistic counter": "it has no more counters: use fewer directions or a mix of fewer sizes",
    "enforces a minimum rate": "raise the load, or measure without latency",
}


def client_directories(spec: GeneratorSpec) -> list[str]:
    """Directories to try, best first, then :data:`PYPI` if it is installed; only the file's, if it names one.

    A server's own distribution comes before what PyPI has, since a library fits one version of the server.
    """
    if spec.client:
        return [spec.client]
    found = [
        path
        for folder in USUAL_DIRECTORIES
        if folder.is_dir()
        for path in (folder, *folder.iterdir())
        if holds_client(path)
    ]
    found.sort(key=lambda path: tuple(int(number) for number in re.findall(r"\d+", path.name)), reverse=True)
    return [*map(str, found), *_installed_clients()]


def _installed_clients() -> list[str]:
    """Client libraries of the extra ``trex`` in this environment, the newer one first."""
    newer = find_spec(CLIENT_PACKAGE)
    found = [str(Path(newer.origin).parent)] if newer is not None and newer.origin else []
    return found + ([PYPI] if find_spec("trex_stl_lib") is not None else [])


def holds_client(path: Path) -> bool:
    """True for a directory of TRex, and for one that has only its client."""
    folders = ("automation/trex_control_plane", "trex/stl", "trex_client", "trex_stl_lib", "interactive/trex")
    return any((path / folder).is_dir() for folder in folders)


def _host_scope() -> str:
    """Where our pids are valid: the host's name, for people, and a digest that no other machine or container has.

    Two machines may have the same name, and so may a host and a container. User names must be ASCII.
    """
    host = "".join(letter if letter.isascii() and letter.isprintable() else "_" for letter in socket.gethostname())
    machine = _MACHINE_ID.read_text(encoding="ascii").strip() if _MACHINE_ID.is_file() else ""
    return f"{host}-{hashlib.sha256(f'{machine} {pid_namespace()}'.encode()).hexdigest()[:8]}"


def user_name() -> str:
    """The user name of this process on a TRex server."""
    process = ProcessId.own()
    return f"nfvperf-{_host_scope()}-{boot_id()[:8]}-{process.pid}-{process.start_ticks}"


def is_of_dead_run(owner: str) -> bool:
    """True for the name of a process of this machine that has ended."""
    match = _NAME.fullmatch(owner)
    if match is None or match["host"] != _host_scope():
        return False
    if match["boot"] != boot_id()[:8]:
        return True
    return not ProcessId(int(match["pid"]), int(match["ticks"])).alive()


def no_client_library() -> ConfigError:
    advice = f"{_WRITE_CLIENT}, or pip install 'pytest-nfvperf[trex]'"
    return ConfigError(f"no TRex client library was found: {advice}", key="generator.client")


def explain_refusal(error: EngineRefusedError, spec: GeneratorSpec) -> NfvperfError:
    """The child's refusal as an error of ours."""
    code, text = error.code, error.answer["error"]
    server = f"TRex server {spec.server}"
    template = _REFUSALS.get(code, _REFUSALS["refused"])
    message = template.format(server=server, text=text, ports=", ".join(map(str, spec.ports)))
    if code in _MISTAKEN_KEYS:
        return ConfigError(message, key=_MISTAKEN_KEYS[code])
    for part, advice in _USER_MISTAKES.items():
        if part in text:
            return ConfigError(f"{server} refuses the trial: {text}; {advice}")
    # Only an unknown refusal needs the trace of the client library.
    return GeneratorError(message, evidence=error.evidence if code == "refused" else None)


def connect(spec: GeneratorSpec, log: Path, start: StartEngine = Engine) -> tuple[EngineLink, dict[str, Any]]:
    """Start a child with each client library in turn until the server understands one.

    ``start``: starts a child; may record the conversation, or replay one.

    Returns:
        The child, and its answer to ``hello``.

    Raises:
        ConfigError: none fits; says which were tried.
        GeneratorError: the server cannot be reached, or does not answer.
    """
    tried: list[str] = []
    libraries = client_directories(spec)
    if not libraries:
        raise no_client_library()
    for library in libraries:
        with deferred_signals():
            link = start([sys.executable, "-u", "-m", MODULE], log, {**with_this_package(), "PYTHONWARNINGS": "ignore"})
        try:
            return link, _hello(link, spec, library)
        except EngineRefusedError as error:
            link.close()
            if error.code not in _WRONG_CLIENT or (spec.client and len(libraries) == 1):
                raise explain_refusal(error, spec) from error
            tried.append(f"{library or 'PyPI trex-stl-lib'}: {error.answer['error']}")
        except BaseException:
            link.close()
            raise
    raise ConfigError(
        f"TRex server {spec.server} understands none of the client libraries that were found: {'; '.join(tried)}; "
        f"{_WRITE_CLIENT}",
        key="generator.client",
    )


def _hello(link: EngineLink, spec: GeneratorSpec, library: str) -> dict[str, Any]:
    hello = link.command(
        "hello",
        _HELLO_DEADLINE_S,
        path=library,
        server=spec.server,
        rpc_port=spec.trex.rpc_port,
        event_port=spec.trex.event_port,
        user=user_name(),
    )
    if hello["protocol"] != PROTOCOL:
        raise GeneratorError(
            f"the TRex child speaks protocol {hello['protocol']}, not {PROTOCOL}: two versions are mixed"
        )
    return hello
