"""What doctor says of TRex: is there a client library for it, and does the server take connections."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from pytest_nfvperf.adapters.generators.trex.clients import VARIABLE, candidates, holds_client
from pytest_nfvperf.adapters.host.check import Check, State
from pytest_nfvperf.model.testbed import GeneratorSpec, Testbed

_CONNECT_S = 2.0


def trex_checks(testbed: Testbed | None) -> list[Check]:
    """Client library and server, where a testbed names them."""
    if testbed is None or testbed.generator.engine != "trex":
        directory = os.environ.get(VARIABLE)
        seen = f"{VARIABLE}={directory}" if directory else "no testbed names it"
        return [Check("TRex", State.OK, f"not needed ({seen})")]
    generator = testbed.generator
    return [_client(generator), _server(generator)]


def _client(generator: GeneratorSpec) -> Check:
    found = [path for path in candidates(generator) if not path or holds_client(Path(path))]
    if found:
        return Check("TRex client", State.OK, found[0] or "PyPI trex-stl-lib (servers of 2019)", needed=True)
    advice = f"unpack TRex and name its directory by generator.client in the testbed file, or by {VARIABLE}"
    return Check("TRex client", State.MISSING, generator.client or "none", advice, needed=True)


def _server(generator: GeneratorSpec) -> Check:
    start, port = generator.trex.start, generator.trex.rpc_port
    if start is not None:
        there = any((Path(start.path) / name).is_file() for name in ("t-rex-64", "_t-rex-64"))
        advice = "" if there else "name the directory of t-rex-64 by generator.trex.start.path"
        return Check(
            "TRex server", State.OK if there else State.MISSING, f"started from {start.path}", advice, needed=True
        )
    server = generator.server or "localhost"
    try:
        with socket.create_connection((server, port), timeout=_CONNECT_S):
            return Check("TRex server", State.OK, f"{server}:{port}", needed=True)
    except OSError as error:
        advice = f"start TRex there: ./t-rex-64 -i (its RPC port is {port}; another: generator.trex.rpc_port)"
        return Check("TRex server", State.MISSING, f"{server}:{port}: {error}", advice, needed=True)
