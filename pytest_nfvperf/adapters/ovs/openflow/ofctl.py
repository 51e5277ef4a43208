"""Any flows by ovs-ofctl (PyPI ``ovs`` speaks no OpenFlow), over the private management sockets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_nfvperf.adapters.process.process import run

_DEADLINE_S = 10.0
_EACH_S = 0.0005
"""A flow takes some 20 us where the CPU is ours alone."""


class OpenFlow:
    """ovs-ofctl on the bridges of one instance."""

    def __init__(self, ofctl: Sequence[str | Path], run_directory: Path) -> None:
        """``ofctl``: the words that start ovs-ofctl."""
        self._ofctl = ofctl
        self._directory = run_directory

    def socket(self, bridge: str) -> Path:
        """The bridge's management socket."""
        return self._directory / f"{bridge}.mgmt"

    def replace_flows(self, bridge: str, flows: Sequence[str]) -> None:
        """Make these the bridge's flows, all at once (an OpenFlow 1.4 bundle); TestbedError with ovs-ofctl's words."""
        target = f"unix:{self.socket(bridge)}"
        run(
            [*self._ofctl, "-O", "OpenFlow14", "--bundle", "replace-flows", target, "-"],
            stdin="\n".join(flows) + "\n",
            deadline_s=_DEADLINE_S + len(flows) * _EACH_S,
        )

    def dump_flows(self, bridge: str) -> str:
        """The bridge's flows as text, with their counters."""
        target = f"unix:{self.socket(bridge)}"
        return run([*self._ofctl, "-O", "OpenFlow14", "dump-flows", target])
