"""What doctor says of TRex: can a server be started, does one that runs take connections, and is its client its own."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pytest_nfvperf.adapters.doctor.check import Check, CheckState
from pytest_nfvperf.adapters.generators.trex.child import (
    PYPI,
    VARIABLE,
    ChildOptions,
    candidates,
    connect,
    holds_client,
    stl_version,
)
from pytest_nfvperf.adapters.generators.trex.server import binary_of, missing
from pytest_nfvperf.model.errors import ConfigError, NfvperfError
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec, Testbed, TrexStart

_CONNECT_S = 2.0
_SERVER, _CLIENT = "TRex server", "TRex client"


def trex_checks(testbed: Testbed | None) -> list[Check]:
    """Server and client library, where a testbed names them."""
    if testbed is None or testbed.generator.engine != "trex":
        directory = os.environ.get(VARIABLE)
        seen = f"{VARIABLE}={directory}" if directory else "no testbed names it"
        return [Check("TRex", CheckState.OK, f"not needed ({seen})")]
    generator = testbed.generator
    start = generator.trex.start
    if start is not None:
        return [_client_for(start, generator), *_startable(start)]
    server = _listens(generator)
    return [_client_of_a_running(generator, there=server.state is CheckState.OK), server]


def _startable(start: TrexStart) -> Iterator[Check]:
    """One line when it can be started; else a line for each thing that is not there."""
    there = True
    for one in missing(start):
        there = False
        yield Check(
            _SERVER, CheckState.MISSING, one.what, f"{one.advice} (generator.trex.start.{one.key})", needed=True
        )
    if there:
        yield Check(_SERVER, CheckState.OK, f"{binary_of(start)} on {', '.join(start.interfaces)}", needed=True)


def _listens(generator: GeneratorSpec) -> Check:
    server, port = generator.server or "localhost", generator.trex.rpc_port
    try:
        with socket.create_connection((server, port), timeout=_CONNECT_S):
            return Check(_SERVER, CheckState.OK, f"{server}:{port}", needed=True)
    except OSError as error:
        advice = f"start TRex there: ./t-rex-64 -i (its RPC port is {port}; another: generator.trex.rpc_port)"
        return Check(_SERVER, CheckState.MISSING, f"{server}:{port}: {error}", advice, needed=True)


def _client_of_a_running(generator: GeneratorSpec, *, there: bool) -> Check:
    """The server itself says whether it understands a library."""
    found = _found(generator)
    if not found:
        return _none(generator)
    if not there:
        advice = "start the server and run doctor again: only the server can say whether it understands the library"
        return Check(
            _CLIENT, CheckState.WARN, f"{_named(found[0])}, not tried: the server does not answer", advice, needed=True
        )
    with tempfile.TemporaryDirectory(prefix="nfv-doctor-") as directory:
        try:
            link, hello = connect(generator, Path(directory) / "trex-client.log", ChildOptions())
        except NfvperfError as error:
            return _refused(error)
        link.close()
    version = hello["server"]["version"]
    return Check(_CLIENT, CheckState.OK, f"{hello['library']}, which server {version} understands", needed=True)


def _client_for(start: TrexStart, generator: GeneratorSpec) -> Check:
    """No server runs yet: the library must speak what the one of its own distribution speaks."""
    found = _found(generator)
    if not found:
        return _none(generator)
    with tempfile.TemporaryDirectory(prefix="nfv-doctor-") as directory:
        log = Path(directory) / "trex-client.log"
        try:
            spoken = stl_version(found[0], log)
            own = stl_version(start.path, log) if holds_client(Path(start.path)) else None
        except NfvperfError as error:
            return _refused(error)
    if own is not None and own != spoken:
        return Check(
            _CLIENT,
            CheckState.MISSING,
            f"{_named(found[0])} speaks STL {spoken}, the server in {start.path} STL {own}",
            "leave generator.client out, or let it name the server's own distribution",
            needed=True,
        )
    return Check(_CLIENT, CheckState.OK, f"{_named(found[0])}, STL {spoken}", needed=True)


def _found(generator: GeneratorSpec) -> list[str]:
    return [path for path in candidates(generator) if not path or holds_client(Path(path))]


def _named(path: str) -> str:
    return "PyPI trex-stl-lib (servers of 2019)" if path == PYPI else path


def _none(generator: GeneratorSpec) -> Check:
    advice = f"unpack TRex and name its directory by generator.client in the testbed file, or by {VARIABLE}"
    return Check(_CLIENT, CheckState.MISSING, f"none in {generator.client or 'the usual places'}", advice, needed=True)


def _refused(error: NfvperfError) -> Check:
    """One message says what went wrong and what to do, with a semicolon between."""
    what, _, advice = str(error).partition("; ")
    key = "generator.client: " if isinstance(error, ConfigError) else ""
    return Check(_CLIENT, CheckState.MISSING, what.removeprefix(key), advice, needed=True)
