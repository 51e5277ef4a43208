"""A vendor's capture interface in a lab: a plug-in of a few lines, taken by the mirror suite as it is shipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from tests.functional.lab_support import pytest_in, veth_cables
from tests.functional.ovs_support import needs_hugepages, needs_root

pytestmark = [needs_root, needs_hugepages]

CONTENT = Path(__file__).parents[2] / "suites/mirror/test_content.py"

NO_LINK = ("-W", "default:port 'dpdk1' is in no link")
"""The card's port is in none, which is worth a warning, and here an error by this project's own settings."""

PLUGIN = """
import os, socket
from pytest_nfvperf.ports.generator import Captured

class Card:
    '''Stands for a vendor's card and its library: keeps frames until it is asked.'''

    def __init__(self, interface):
        self.interface, self.handle = interface, None

    def start(self):
        self.handle = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.handle.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
        self.handle.bind((self.interface, 3))
        self.handle.setblocking(False)

    def stop(self):
        frames = []
        try:
            while True:
                frames.append(self.handle.recv(65536))
        except BlockingIOError:
            return Captured(len(frames), None, tuple(frames))

    def close(self):
        if self.handle is not None:
            self.handle.close()

def pytest_nfvperf_make_capture(config, testbed, output):
    print(f"card asked for {output} of {testbed.name}")
    return Card(os.environ["CARD"]) if output == "p1" else None
"""


def lab(folder: Path, local: list[str], peer: str) -> Path:
    """The generator on one cable, the card on the other, which no link names."""
    file = folder / "lab.yaml"
    ports = [{"name": f"dpdk{n}", "interface": name} for n, name in enumerate(local)]
    text = {
        "schema": 1,
        "name": "lab with a card",
        "dut": {"ovs": {"datapath": "dpdk"}, "ports": ports},
        "generator": {"engine": "embedded", "ports": [0], "devices": [peer]},
        "links": [["generator.0", "dut.dpdk0"]],
    }
    file.write_text(json.dumps(text))
    return file


@pytest.mark.thorough("a suite's run")
def test_the_suite_takes_a_plugins_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify: each copy came to the card, byte for byte and once for each crossing: the suite's own checks."""
    (tmp_path / "vendor_card.py").write_text(PLUGIN)
    with veth_cables(2) as cables:
        (local0, peer0), (local1, peer1) = cables
        monkeypatch.setenv("CARD", peer1)
        with IPRoute() as host:
            host.link("set", index=host.link_lookup(ifname=peer1)[0], state="up")
        given = ["-p", "vendor_card", "-k", "capture_interface and 64", "-s", "-p", "no:cacheprovider", *NO_LINK]
        file = lab(tmp_path, [local0, local1], peer0)
        done = pytest_in(tmp_path, str(CONTENT), *given, "--nfv-testbed", str(file), "--nfv-report=none")
    assert done.returncode == 0, done.stdout
    assert "card asked for p1 of lab with a card" in done.stdout
    assert "1 passed" in done.stdout


def test_without_a_plugin_the_suite_says_what_is_missing(tmp_path: Path) -> None:
    given = ["-k", "capture_interface and 64", "-rs", "-p", "no:cacheprovider", "--nfv-report=none"]
    done = pytest_in(tmp_path, str(CONTENT), *given)
    assert "1 skipped" in done.stdout
    words = "no capture interface: a lab's plug-in provides one by the hook"
    assert words in " ".join(done.stdout.split())
