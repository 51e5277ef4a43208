"""What doctor says of a TRex: a program, a namespace or interfaces that are not there, a client of another version."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.machine.check import Check, CheckState
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.features.trex import server
from pytest_nfvperf.features.trex.child import CLIENT_PACKAGE, VARIABLE
from pytest_nfvperf.features.trex.side import trex_checks
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec, Testbed, TrexSpec, TrexStart
from tests.functional.ovs_support import clean_run, needs_root
from tests.functional.trex_support import veth
from tests.trex_wire import ERRORS, SESSION, recorded_server, request_id

STAND_IN = Path(__file__).parents[1] / "stand_in_trex"


@pytest.fixture
def distribution(tmp_path: Path) -> Path:
    """A directory as TRex's: a program, which nobody starts here, and its client library."""
    shutil.copytree(STAND_IN, tmp_path / "trex")
    binary = tmp_path / "trex" / "_t-rex-64"
    binary.write_text("#!/bin/false\n")
    binary.chmod(0o755)
    return tmp_path / "trex"


@pytest.fixture
def space() -> Iterator[str]:
    with clean_run() as journal:
        made = LiveNamespace(journal, "trex")
        veth(made, 1500, "trex0", "trex1")
        yield made.name


def bed(**generator: object) -> Testbed:
    return dataclasses.replace(discover_testbed(), generator=GeneratorSpec("trex", server="127.0.0.1", **generator))  # type: ignore[arg-type]


def started(path: Path, netns: str | None, client: str | None = None, **start: object) -> list[Check]:
    made = TrexStart(str(path), **{"interfaces": ("trex0", "trex1"), "low_end": True, "netns": netns, **start})  # type: ignore[arg-type]
    return trex_checks(bed(client=client, trex=TrexSpec(start=made)))


def said(checks: list[Check], name: str = "TRex server") -> list[tuple[CheckState, str, str]]:
    return [(check.state, check.seen, check.advice) for check in checks if check.name == name]


@pytest.mark.skipif(find_spec(CLIENT_PACKAGE) is None, reason="needs PyPI's lbr-trex-client: pip install '.[trex]'")
def test_a_server_of_today_understands_the_client_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab file with no client, and no distribution on this machine."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with recorded_server(SESSION) as answering:
        checks = trex_checks(bed(trex=TrexSpec(rpc_port=answering.rpc_port, event_port=answering.event_port)))
    ((state, seen, advice),) = said(checks, "TRex client")
    assert (state, advice) == (CheckState.OK, "")
    assert re.fullmatch(rf"/.*/{CLIENT_PACKAGE}/interactive, which server v3\.08 understands", seen)


@needs_root
def test_one_that_can_be_started(distribution: Path, space: str) -> None:
    checks = started(distribution, space)
    assert said(checks) == [(CheckState.OK, f"{distribution}/_t-rex-64 on trex0, trex1", "")]
    assert said(checks, "TRex client") == [(CheckState.OK, f"{distribution}, STL 5.1", "")]


def test_a_program_and_a_namespace_that_are_not_there(tmp_path: Path) -> None:
    assert said(started(tmp_path, "nonesuch")) == [
        (
            CheckState.MISSING,
            f"no TRex is installed there: {tmp_path}/_t-rex-64 is missing",
            "name the directory of _t-rex-64 (generator.trex.start.path)",
        ),
        (
            CheckState.MISSING,
            "there is no network namespace 'nonesuch'",
            "ip netns add nonesuch (generator.trex.start.netns)",
        ),
    ]


def test_a_program_that_cannot_be_executed(distribution: Path) -> None:
    (distribution / "_t-rex-64").chmod(0o644)
    ((state, seen, advice), *_) = said(started(distribution, "nonesuch"))
    assert (state, seen) == (CheckState.MISSING, f"{distribution}/_t-rex-64 cannot be executed")
    assert advice == f"chmod +x {distribution}/_t-rex-64 (generator.trex.start.path)"


def test_a_nic_that_is_not_there(distribution: Path) -> None:
    """TRex's own program takes NICs that are bound: the script before it would bind them, and give none back."""
    checks = said(started(distribution, None, interfaces=("0000:ff:1e.6", "dummy"), driver="pci"))
    assert (
        CheckState.MISSING,
        "TRex: this machine has no PCI device 0000:ff:1e.6: see lspci -D",
        "correct the address (generator.trex.start.interfaces)",
    ) in checks
    assert all("_t-rex-64" not in seen for _, seen, _ in checks)


def test_a_nic_without_a_mount_of_hugepages(
    distribution: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("proc /proc proc rw 0 0\n")
    monkeypatch.setattr(server, "MOUNTS", mounts)
    lacks = "TRex on PCI NICs needs hugepages by a mount, and none is there"
    asked = {"interfaces": ("0000:ff:1e.6", "dummy"), "driver": "pci"}
    advice = "mount -t hugetlbfs nodev /mnt/huge (generator.trex.start.driver)"
    assert (CheckState.MISSING, lacks, advice) in said(started(distribution, None, **asked))
    mounts.write_text("nodev /mnt/huge hugetlbfs rw 0 0\n")
    assert lacks not in [seen for _, seen, _ in said(started(distribution, None, **asked))]


@needs_root
def test_interfaces_that_are_not_there_or_down(distribution: Path, space: str) -> None:
    with IPRoute(netns=space) as links:
        links.link("set", index=links.link_lookup(ifname="trex0")[0], state="down")
    assert said(started(distribution, space, interfaces=("trex0", "eth7"))) == [
        (
            CheckState.MISSING,
            f"interface 'trex0' in namespace '{space}' is down",
            f"ip -n {space} link set trex0 up (generator.trex.start.interfaces)",
        ),
        (
            CheckState.MISSING,
            f"namespace '{space}' has no interface 'eth7' (there are: trex0, trex1)",
            "make it before the run, or correct the name (generator.trex.start.interfaces)",
        ),
    ]


@needs_root
def test_a_client_that_is_not_of_the_servers_generation(distribution: Path, space: str, tmp_path: Path) -> None:
    older = tmp_path / "older"
    shutil.copytree(STAND_IN, older)
    library = older / "trex" / "stl" / "api.py"
    library.write_text(library.read_text().replace('"5.1"', '"4.6"'))
    assert said(started(distribution, space, client=str(older)), "TRex client") == [
        (
            CheckState.MISSING,
            f"{older} speaks STL 4.6, the server in {distribution} STL 5.1",
            "leave generator.client out, or let it name the server's own distribution",
        )
    ]


def test_a_client_that_cannot_be_imported(distribution: Path) -> None:
    (distribution / "trex" / "stl" / "api.py").write_text("import nonesuch_module\n")
    ((state, seen, advice),) = said(started(distribution, None), "TRex client")
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
