"""Hooks that exist only with pytest-xdist: workers share the controller's run directory."""

from __future__ import annotations

from typing import Any

import pytest

RUN_DIR = "nfv_run_dir"


class XdistHooks:
    """Registered by the plugin when xdist is there."""

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where this run's results go."""
        from pytest_nfvperf.plugin import LOADGROUP, OPTIONS_KEY  # noqa: PLC0415 - the plugin imports this module
        from pytest_nfvperf.rundir import run_directory  # noqa: PLC0415

        node.workerinput[RUN_DIR] = str(run_directory(node.config, node.config.stash[OPTIONS_KEY]))
        node.workerinput[LOADGROUP] = node.config.getoption("dist") == "loadgroup"
