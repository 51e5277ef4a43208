"""An FRR as a lab has it: with static routes, which are FRR's own daemon's, and since FRR 9 mgmtd's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_nfvperf.adapters.process import private_mounts
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.adapters.process.programs import PROGRAMS, find
from pytest_nfvperf.features.routing.daemons import RoutingDaemons
from pytest_nfvperf.features.routing.frr import Vty
from tests.functional.bgp_support import Link

BUILT_IN = Path("/run/frr")
"""Where mgmtd has its sockets, whatever it is told."""


def route_daemon() -> str:
    """Which daemon of the FRR here is told of static routes."""
    return (
        "mgmtd"
        if any((Path(directory) / "mgmtd").exists() for directory in PROGRAMS["bgpd"].directories)
        else "staticd"
    )


@contextmanager
def static_routes(link: Link, frr: Path, asn: int, prefix: str) -> Iterator[None]:
    """Beside zebra and bgpd, whose sockets are in ``frr``: the daemons of static routes, with one, redistributed."""
    daemons = RoutingDaemons(link.journal, link.here, "frr-static")
    try:
        for name in dict.fromkeys((route_daemon(), "staticd")):
            daemons.run_daemon(name, _command(name, frr, daemons.directory))
            wait_until((frr / f"{name}.vty").exists, f"{name} to listen", 10)
        _tell(frr, route_daemon(), f"ip route {prefix} blackhole")
        _tell(frr, "bgpd", f"router bgp {asn}", "address-family ipv4 unicast", "redistribute static")
        yield
    finally:
        daemons.close()


def _command(name: str, frr: Path, directory: Path) -> tuple[str, ...]:
    program = find("bgpd")
    assert program is not None
    files = ("-i", str(directory / f"{name}.pid"), "--vty_socket", str(frr), "-z", str(frr / "zserv.api"))
    argv = (str(Path(program).with_name(name)), *files, "-u", "root", "-g", "frrvty", "-P", "0", "--log", "stdout")
    if route_daemon() != "mgmtd":
        return argv
    BUILT_IN.mkdir(exist_ok=True)  # what FRR's package makes when the machine boots
    return private_mounts.with_binds({str(directory): str(BUILT_IN)}, argv)


def _tell(frr: Path, daemon: str, *lines: str) -> None:
    vty = Vty(frr / f"{daemon}.vty", daemon)
    try:
        vty.run("configure terminal", *lines, "end")
    finally:
        vty.close()
