"""The child process with the client library that fits the server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest_nfvperf
from pytest_nfvperf.adapters.generators.engine import Engine, EngineLink, EngineRefusedError, StartEngine
from pytest_nfvperf.adapters.generators.trex.clients import candidates
from pytest_nfvperf.adapters.generators.trex.messages import explained
from pytest_nfvperf.adapters.generators.trex.owner import own_name
from pytest_nfvperf.adapters.generators.trex.server import TrexServer
from pytest_nfvperf.adapters.process.interrupts import held
from pytest_nfvperf.model.errors import ConfigError, GeneratorError
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec

MODULE = "pytest_nfvperf.adapters.generators.trex_child"
PROTOCOL = 1
_HELLO_DEADLINE_S = 40.0
"""Importing the library takes some seconds, and a frozen server is given up after ten."""

_WRONG_CLIENT = {"version_mismatch", "no_client"}


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """What seldom needs to be set.

    Attributes:
        env: variables added to the child's environment, such as the tag that a reaper knows it by.
        netns: network namespace to connect from; None: ours.
        start: starts it; a recording one, or one that plays a recording.
        on_spawn: told each child's process id.
        server: the server, where we started it: asked what became of it when it answers no more.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    netns: str | None = None
    start: StartEngine = Engine
    on_spawn: Callable[[int], None] = lambda _: None
    server: TrexServer | None = None


def connect(spec: GeneratorSpec, log: Path, options: ChildOptions) -> tuple[EngineLink, dict[str, Any]]:
    """Start a child with each client library in turn until one is understood by the server.

    Returns:
        The child, and its answer to ``hello``.

    Raises:
        ConfigError: none fits; says which were tried.
        GeneratorError: the server cannot be reached, or does not answer.
    """
    tried: list[str] = []
    libraries = candidates(spec)
    if not libraries:
        raise ConfigError(
            "no TRex client library was found: write 'client: DIRECTORY' of the server's own TRex distribution",
            key="generator.client",
        )
    for library in libraries:
        link = _started(log, options)
        try:
            return link, _hello(link, spec, library)
        except EngineRefusedError as error:
            link.close()
            if error.code not in _WRONG_CLIENT or (spec.client and len(libraries) == 1):
                raise explained(error, spec, options.server) from error
            tried.append(f"{library or 'PyPI trex-stl-lib'}: {error.answer['error']}")
        except BaseException:
            link.close()
            raise
    raise ConfigError(
        f"TRex server {spec.server} understands none of the client libraries that were found: {'; '.join(tried)}; "
        "write 'client: DIRECTORY' of the server's own TRex distribution",
        key="generator.client",
    )


def stl_version(library: str, log: Path) -> str:
    """Which version of TRex's protocol a client library speaks, such as "5.1"; asks no server.

    Args:
        library: its directory; "" for PyPI's.
        log: file for what it prints; written anew.

    Raises:
        ConfigError: there is none, or it cannot be imported.
    """
    link = _started(log, ChildOptions())
    try:
        version: str = link.command("library", _HELLO_DEADLINE_S, path=library)["stl"]
        return version
    except EngineRefusedError as error:
        raise explained(error, GeneratorSpec("trex", client=library)) from error
    finally:
        link.close()


def _started(log: Path, options: ChildOptions) -> EngineLink:
    inside: Sequence[str] = ["nsenter", f"--net=/run/netns/{options.netns}"] if options.netns else []
    package = Path(pytest_nfvperf.__file__).parents[1]
    path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
    with held():
        link = options.start(
            [*inside, sys.executable, "-u", "-m", MODULE],
            log,
            {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore", **options.env},
        )
        options.on_spawn(link.pid)
    return link


def _hello(link: EngineLink, spec: GeneratorSpec, library: str) -> dict[str, Any]:
    hello = link.command(
        "hello",
        _HELLO_DEADLINE_S,
        path=library,
        server=spec.server,
        rpc_port=spec.trex.rpc_port,
        event_port=spec.trex.event_port,
        user=own_name(),
    )
    if hello["protocol"] != PROTOCOL:
        raise GeneratorError(
            f"the TRex child speaks protocol {hello['protocol']}, not {PROTOCOL}: two versions are mixed"
        )
    return hello
