"""A lab on a machine without NICs: veth pairs for cables, a private OVS for the system's."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute

from pytest_nfvperf.adapters.generators.embedded.build import build
from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.net.borrowed_interfaces import remove_link
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.ovs.ovsdb import Unixctl
from pytest_nfvperf.adapters.process.journal import Journal, Kind, new_tag
from pytest_nfvperf.adapters.process.process import ManagedProcess, run, spawn, wait_until
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.testbed import CableSpec, DutPort, GeneratorSpec, Testbed
from tests.functional.generator_support import hugepages_mib


@contextmanager
def veth_cables(number: int) -> Iterator[list[tuple[str, str]]]:
    """Veth pairs (DUT's end, generator's end), down, as a lab's NICs are before a run."""
    tag = new_tag()
    names = [(f"{tag}d{index}", f"{tag}g{index}") for index in range(number)]
    try:
        with IPRoute() as host:
            for local, peer in names:
                host.link("add", ifname=local, kind="veth", peer=peer)
        yield names
    finally:
        for local, _ in names:
            remove_link(local)


def run_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python module as a program, in a folder of a user's, by the interpreter that runs the tests."""
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{folder}"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A pytest run in a folder of a user's."""
    return run_in(folder, "pytest", *arguments)


def lab_testbed(local: Sequence[str], peer: Sequence[str], **ovs: Any) -> Testbed:
    """Ports dpdk0, dpdk1, ... on interfaces ``local``, cabled in order to generator ports on ``peer``."""
    found = discover_testbed()
    spec = {"datapath": "netdev", "other_config": (), **ovs}
    return dataclasses.replace(
        found,
        name="veth lab",
        discovered=False,
        ovs=dataclasses.replace(found.ovs, **spec),
        ports=tuple(DutPort(f"dpdk{n}", "interface", interface=name) for n, name in enumerate(local)),
        generator=GeneratorSpec(ports=tuple(range(len(peer))), devices=tuple(peer)),
        links=tuple(CableSpec(str(n), f"dpdk{n}") for n in range(len(peer))),
    )


@contextmanager
def generator_of(testbed: Testbed, journal: Journal) -> Iterator[EmbeddedGenerator]:
    """The embedded generator, without ports."""
    generator = EmbeddedGenerator(
        build(),
        cpus=testbed.cpus.generator,
        control_cpus=testbed.cpus.housekeeping,
        run_dir=journal.directory,
        file_prefix=f"nfv-{journal.tag}-lab",
        hugepages_mib=hugepages_mib(),
    )
    try:
        yield generator
    finally:
        generator.close()


@contextmanager
def system_ovs(journal: Journal, *, own_namespace: bool = True) -> Iterator[Path]:
    """An OVS as a distribution starts it, with a bridge and a key of its own, by its run directory.

    ``journal``: of the host, as it were, not of the run that uses it.
    """
    directory = journal.directory / "openvswitch"
    journal.note(Kind.DIRECTORY, str(directory))
    directory.mkdir()
    with ExitStack() as stack:
        namespace = stack.enter_context(closing(LiveNamespace(journal, "host"))) if own_namespace else None
        _start_daemons(journal, directory, namespace.name if namespace else None, stack)
        yield directory


def _start_daemons(journal: Journal, directory: Path, netns: str | None, stack: ExitStack) -> None:
    binaries = locate()
    conf, socket = directory / "conf.db", directory / "db.sock"
    run([binaries.ovsdb_tool, "create", conf, binaries.schema])
    env = {"OVS_RUNDIR": str(directory), "OVS_LOGDIR": str(directory), "OVS_DBDIR": str(directory)}
    # by its name as it is installed: the pid file is named after it
    for command in ([binaries.ovsdb_server, conf, f"--remote=punix:{socket}"], ["ovs-vswitchd", f"unix:{socket}"]):
        name = Path(command[0]).name
        log = directory / f"{name}.log"
        argv = [*command, "--pidfile", f"--log-file={log}", "-vconsole:off"]
        process = spawn(journal, name, argv, log=log, netns=netns, env=env)
        stack.callback(_end, process, directory)
        wait_until((directory / f"{name}.pid").exists, f"{name}'s pid file", 10)
        if name == "ovsdb-server":
            wait_until(socket.is_socket, f"{name}'s socket", 10)
            vsctl(directory, "--no-wait", "init")
    settings = ["set", "Open_vSwitch", ".", "other_config:max-idle=12345", "external_ids:hostname=lab"]
    vsctl(directory, *settings, "--", "add-br", "br-ex", "--", "set", "Bridge", "br-ex", "datapath_type=netdev")


def _end(process: ManagedProcess, directory: Path) -> None:
    """Taps are persistent: only ``exit --cleanup`` removes them."""
    if process.name == "ovs-vswitchd" and process.running():
        control = Unixctl(directory / f"ovs-vswitchd.{process.pid}.ctl", process.name)
        with suppress(TestbedError):  # it may be gone before its answer is: what counts is its end
            control.call("exit", "--cleanup")
        control.close()
        process.popen.wait(5)
    process.stop()


def vsctl(directory: Path, *arguments: str) -> str:
    """ovs-vsctl on the stand-in's database."""
    command = ["ovs-vsctl", "--timeout=10", f"--db=unix:{directory}/db.sock", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def contents(directory: Path) -> dict[str, str]:
    """What somebody would notice: bridges, ports, other_config."""
    return {
        "bridges": vsctl(directory, "list-br"),
        "ports": vsctl(directory, "--columns=name", "--format=csv", "list", "Port"),
        "other_config": vsctl(directory, "get", "Open_vSwitch", ".", "other_config"),
        "bridge": vsctl(directory, "--columns=datapath_type,fail_mode,external_ids", "list", "Bridge", "br-ex"),
    }
