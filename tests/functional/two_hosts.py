"""DUT hosts: this one, and namespaces with an sshd. Veth pairs are the cables between them and the generator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.machine.reaper import open_journal
from tests.functional.ovs_support import run_base
from tests.ssh_machines import Reachable, SshMachine, ssh_machines
from tests.user_project import CONFTEST

ROOT = Path(__file__).parents[2]
SUITE = '''
from pytest_nfvperf import Traffic, vm_to_vm

ONE_WAY = Traffic(frame_size=256, bidirectional=False)

def test_light_load(deploy, search, sla):
    """Steps: one trial from host to host. Verify: the SLA."""
    sla.check(search.loss_at(deploy(vm_to_vm("vxlan")), ONE_WAY, 1_000, 0.5))
'''
SLA = """
schema: 1
rules:
  - {where: {}, require: {loss_ratio: {at: 1 kpps, limit: "<= 0"}}}
"""


@dataclass(frozen=True)
class TwoHosts:
    """``folder``: a user's project. ``base``: has a directory for the runs of each far host."""

    __test__ = False

    folder: Path
    base: Path
    reachable: Reachable

    @property
    def remote(self) -> SshMachine:
        """The other host."""
        return self.reachable.machines["dut2"]

    def lab(self, **node2: Any) -> Path:
        """The testbed file; ``node2``: what its second node says otherwise."""
        ports = (("left", "d0", "node1"), ("up1", "up1", "node1"), ("right", "d1", "node2"), ("up2", "up2", "node2"))
        there = {name: self._reached(machine) for name, machine in self.reachable.machines.items()}
        file = self.folder / "lab.yaml"
        text = {
            "schema": 1,
            "name": "two hosts",
            "dut": {
                "ovs": {"datapath": "netdev"},
                "ports": [{"name": name, "interface": interface, "node": node} for name, interface, node in ports],
            },
            "nodes": {
                "node1": {"underlay": "up1", **there.get("dut1", {})},
                "node2": {"underlay": "up2", **there["dut2"], **node2},
            },
            "generator": {"ports": [0, 1], "devices": ["g0", "g1"]},
            "links": [["generator.0", "dut.left"], ["generator.1", "dut.right"]],
        }
        file.write_text(json.dumps(text))
        return file

    @staticmethod
    def _reached(machine: SshMachine) -> dict[str, str]:
        return {"ssh": machine.name, "ssh_config": str(machine.config), "python": sys.executable}

    def write(self, suite: str) -> None:
        """The project's only suite."""
        (self.folder / "mine/test_mine.py").write_text(suite)

    def command(self, *arguments: str) -> list[str]:
        """Of Python, as it is run on this host."""
        return ["nsenter", f"--net={self.reachable.home.path}", sys.executable, *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """Of such a command."""
        given = {"PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}", "FAR_SSHD": str(self.remote.sshd.pid)}
        return {**os.environ, **given}

    def interpreter(self, name: str, customize: str = "", python: str = sys.executable) -> str:
        """An interpreter for the far end that runs these lines before all others."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(customize)
        wrapper = folder / "python"
        wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={folder}:$PYTHONPATH exec {python} "$@"\n')
        wrapper.chmod(0o755)
        return str(wrapper)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Python on this host."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def pytest_arguments(self, lab: Path) -> list[str]:
        """Of a run on both hosts."""
        files = ["mine", f"--nfv-testbed={lab}", "--nfv-sla=vendor.yaml"]
        return ["-m", "pytest", *files, "--nfv-report=none", "--nfv-wait=1 min"]

    def pytest(self, lab: Path) -> subprocess.CompletedProcess[str]:
        """A run on both hosts."""
        return self.run(*self.pytest_arguments(lab))

    def left_there(self) -> list[str]:
        """What is left on far hosts: run directories, and interfaces that were not given back."""
        runs = [str(path) for path in self.base.glob("*/*") if path.is_dir()]
        return runs + [found for name, machine in self.reachable.machines.items() for found in _not_back(name, machine)]


def _not_back(host: str, machine: SshMachine) -> list[str]:
    """Interfaces of a far host that are not where they were, or up."""
    lent = {host.replace("dut", "up"), {"dut1": "d0", "dut2": "d1"}[host]}
    links = {link["ifname"]: link["flags"] for link in json.loads(machine.namespace.run(["ip", "-json", "link"]))}
    return sorted(name for name in lent if "UP" in links.get(name, ["UP"]))


@contextmanager
def two_hosts(folder: Path, remote: Sequence[str] = ("dut2",)) -> Iterator[TwoHosts]:
    """Both, cabled, with a project of a user's. ``remote``: those that ssh reaches; dut1 may also be this one."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "mine").mkdir()
    (folder / "vendor.yaml").write_text(SLA)
    keys = folder / "keys"
    keys.mkdir()
    with run_base() as base, closing(open_journal()) as journal:
        there = {name: {"NFVPERF_RUN_DIR": str(base / name), "PYTHONPATH": str(ROOT)} for name in remote}
        with ssh_machines(journal, keys, remote, there) as reachable:
            names = {name: machine.namespace.name for name, machine in reachable.machines.items()}
            home = reachable.home.name
            dut1, dut2 = names.get("dut1", home), names["dut2"]
            _cable(home, "g0", dut1, "d0")
            _cable(dut1, "up1", dut2, "up2")
            _cable(home, "g1", dut2, "d1")
            hosts = TwoHosts(folder, base, reachable)
            hosts.write(SUITE)
            yield hosts


def _cable(local_host: str, local: str, remote_host: str, peer: str) -> None:
    """A veth pair, down, as a lab's NICs are before a run."""
    command = [
        "ip",
        "-netns",
        local_host,
        "link",
        "add",
        local,
        "type",
        "veth",
        "peer",
        "name",
        peer,
        "netns",
        remote_host,
    ]
    subprocess.run(command, check=True, capture_output=True)
