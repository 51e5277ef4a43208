"""Speaks to nfvperf-gen in its protocol (docs/reference/engine-protocol.md), for the tests of that."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.embedded.build import build
from pytest_nfvperf.adapters.generators.embedded.generator import eal_arguments
from pytest_nfvperf.adapters.generators.frames import Addresses, build_frame
from tests.functional.generator_support import hugepages_mib, run_dir

DOCUMENT = Path(__file__).parents[2] / "docs/reference/engine-protocol.md"
FRAME = build_frame(64, Addresses("02:00:00:00:00:01", "02:00:00:00:00:02", "198.18.0.1", "198.19.0.1")).hex()
STREAM = {"tx": "p0", "rx": "p0", "fps": 1000, "frames": 10, "templates": [FRAME], "signatures": [42]}
PORT = {"cmd": "attach", "name": "p0", "device": "net_ring", "mac": "02:00:00:00:00:01", "rx_descriptors": 512}


class Talk:
    """A bare engine process, spoken to line by line."""

    def __init__(self, directory: Path) -> None:
        eal = eal_arguments([0], [0], "talk", hugepages_mib(), ())
        self.process = subprocess.Popen(
            [str(build()), "--parent", str(os.getpid()), "--nice", "0", *eal],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "RUNTIME_DIRECTORY": str(directory)},
        )

    def line(self, text: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.read()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def send(self, **request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def answer(self, number: int) -> Any:
        """The next one to this request; intervals before it are passed over."""
        while True:
            line = self.read()
            if line["id"] == number and "interval" not in line:
                return line

    def ask(self, **request: Any) -> Any:
        return self.line(json.dumps({"id": 1, **request}))

    def without_ports(self) -> bool:
        """Detach all ports; False where it has ended, or is in the middle of something."""
        assert self.process.stdin is not None
        if self.process.stdin.closed or self.process.poll() is not None:
            return False
        ports = self.ask(cmd="stats").get("ports")
        return ports is not None and all(self.ask(cmd="detach", name=name)["ok"] for name in ports)

    def end(self) -> None:
        with self.process:
            self.process.kill()


@pytest.fixture(scope="module")
def talks() -> Iterator[Callable[[], Talk]]:
    """Gives an engine without ports: the one that it gave before, unless a test has ended that."""
    with run_dir() as directory:
        running: list[Talk] = []

        def idle() -> Talk:
            if running and not running[0].without_ports():
                running.pop().end()
            if not running:
                running.append(Talk(directory))
            return running[0]

        yield idle
        for each in running:
            each.end()


@pytest.fixture
def talk(talks: Callable[[], Talk]) -> Talk:
    """An engine without ports, which the tests of a file share."""
    return talks()


def examples() -> list[tuple[Any, Any]]:
    """Requests and answers of the document, in order."""
    lines = [
        json.loads(line)
        for block in re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        for line in block.splitlines()
    ]
    return list(zip(lines[::2], lines[1::2], strict=True))


def documented_line(key: str) -> Any:
    """The document's example that is no pair of request and answer, by a key of it."""
    blocks = re.findall(r"```jsonl\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (found,) = [line for line in map(json.loads, blocks) if key in line]
    return found


def shape(value: Any) -> Any:
    """Keys and types, without the values; a list has the shape of its first item."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


SECONDS = {**STREAM, "fps": 100_000, "frames": 10**9}
TRIAL = {"cmd": "trial", "residual_ns": 10**8, "interval_ns": 20_000_000}
