"""A look at a node's host before anything is started there: which versions it has, and what the testbed file names."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pytest_nfvperf.adapters.far.line import check_version, open_line
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.lab_cables import bed_of_node
from pytest_nfvperf.model.testbed.node_spec import FarHost, NodeSpec, dut_of_node
from pytest_nfvperf.model.testbed.testbed import TESTBEDS_OWN, Testbed


def look_at(testbed: Testbed, node: NodeSpec, host: FarHost) -> dict[str, Any]:
    """The fingerprint of a node's host; starts nothing there.

    Raises:
        ConfigError: it cannot be reached, has another version of this package, or lacks OVS or an interface.
    """
    check_version(node.name, host)
    dut = dut_of_node(testbed, TESTBEDS_OWN, node.name)
    with TemporaryDirectory(prefix="nfvperf-") as folder:
        try:
            line = open_line(host, Path(folder) / "ssh.log")
            try:
                found: dict[str, Any] = line.ask("look", bed_of_node(testbed, node.name), dut).value
            finally:
                line.close()
        except ConfigError as error:
            raise ConfigError(f"on {host}: {error.message}", key=error.key or f"nodes.{node.name}") from error
        except TestbedError as error:
            raise ConfigError(f"on {host}: {error}", key=f"nodes.{node.name}") from error
    return found
