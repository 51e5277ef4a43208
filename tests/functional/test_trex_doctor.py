"""What doctor says of a TRex: a server that is not there, a client of another version."""

from __future__ import annotations

import dataclasses
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.machine.machine_checks import Check, CheckState
from pytest_nfvperf.features.trex.child import CLIENT_PACKAGE
from pytest_nfvperf.features.trex.side import trex_checks
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec, Testbed, TrexSpec
from tests.trex_wire import ERRORS, SESSION, recorded_server, request_id

STAND_IN = Path(__file__).parents[1] / "stand_in_trex"


def bed(**generator: object) -> Testbed:
    return dataclasses.replace(discover_testbed(), generator=GeneratorSpec("trex", server="127.0.0.1", **generator))  # type: ignore[arg-type]


def said(checks: list[Check], name: str = "TRex server") -> list[tuple[CheckState, str, str]]:
    return [(check.state, check.seen, check.advice) for check in checks if check.name == name]


@pytest.mark.skipif(find_spec(CLIENT_PACKAGE) is None, reason="needs PyPI's lbr-trex-client: pip install '.[trex]'")
def test_a_server_of_today_understands_the_client_of_the_extra() -> None:
    """A lab file with no client, and no distribution on this machine."""
    with recorded_server(SESSION) as answering:
        checks = trex_checks(bed(trex=TrexSpec(rpc_port=answering.rpc_port, event_port=answering.event_port)))
    ((state, seen, advice),) = said(checks, "TRex client")
    assert (state, advice) == (CheckState.OK, "")
    assert re.fullmatch(rf"/.*/{CLIENT_PACKAGE}/interactive, which server v3\.08 understands", seen)


def test_a_client_that_cannot_be_imported(tmp_path: Path) -> None:
    distribution = tmp_path / "trex"
    shutil.copytree(STAND_IN, distribution)
    (distribution / "trex" / "stl" / "api.py").write_text("import nonesuch_module\n")
    with recorded_server(SESSION) as server:
        trex = TrexSpec(rpc_port=server.rpc_port, event_port=server.event_port)
        ((state, seen, advice),) = said(trex_checks(bed(client=str(distribution), trex=trex)), "TRex client")
    assert state is CheckState.MISSING
    assert f"{distribution} cannot be imported: No module named 'nonesuch_module'" in seen
    assert advice.startswith("write 'client: DIRECTORY' of the server's own TRex distribution")


def test_a_server_that_runs_says_whether_it_understands_the_client() -> None:
    with recorded_server(SESSION) as server:
        trex = TrexSpec(rpc_port=server.rpc_port, event_port=server.event_port)
        checks = trex_checks(bed(client=str(STAND_IN), trex=trex))
    assert said(checks, "TRex client") == [(CheckState.OK, f"{STAND_IN}, which server v3.08 understands", "")]
    assert said(checks) == [(CheckState.OK, f"127.0.0.1:{server.rpc_port}", "")]


def test_a_server_that_runs_and_does_not_understand_the_client() -> None:
    older = request_id(ERRORS, "api_sync_v2", "raw api_sync_v2 client older 4.6")
    with recorded_server(ERRORS, instead={"api_sync_v2": older}) as server:
        trex = TrexSpec(rpc_port=server.rpc_port, event_port=server.event_port)
        ((state, seen, advice),) = said(trex_checks(bed(client=str(STAND_IN), trex=trex)), "TRex client")
    assert state is CheckState.MISSING
    assert "TRex server 127.0.0.1 and the client library do not fit: RPC version mismatch" in seen
    assert advice == "write 'client: DIRECTORY' of the server's own TRex distribution"


def test_a_client_that_nobody_could_try_is_not_ok() -> None:
    checks = trex_checks(bed(client=str(STAND_IN), trex=TrexSpec(rpc_port=4555)))
    ((state, seen, advice),) = said(checks, "TRex client")
    assert (state, seen) == (CheckState.WARN, f"{STAND_IN}, not tried: the server does not answer")
    assert advice == "start the server and run doctor again: only the server can say whether it understands the library"
    assert [state for state, _, _ in said(checks)] == [CheckState.MISSING]
