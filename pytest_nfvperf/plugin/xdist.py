"""Hooks that exist only with pytest-xdist: workers share the controller's run directory."""

from __future__ import annotations

from typing import Any

import pytest

RUN_DIR = "nfv_run_dir"
MISTAKE = "nfv_mistake"


def tell_controller(config: Any, mistake: pytest.UsageError) -> None:
    """In a worker: say what ends the run. Without this xdist ends it by an internal error that does not name it."""
    config.workeroutput[MISTAKE] = str(mistake)


class XdistHooks:
    """Registered by the plugin when xdist is there."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._nodes: list[Any] = []

    @pytest.hookimpl
    def pytest_testnodeready(self, node: Any) -> None:
        """A worker runs."""
        self._nodes.append(node)

    @pytest.hookimpl
    def pytest_runtest_logstart(self) -> None:
        """A worker has begun a test. If one measures, which its evidence says, signals to us are for the workers."""
        from pytest_nfvperf.plugin import stopping  # noqa: PLC0415 - as below
        from pytest_nfvperf.plugin.rundir import RUN_DIR_KEY  # noqa: PLC0415 - as below

        run_dir = self._config.stash.get(RUN_DIR_KEY, None)
        if self._nodes and run_dir is not None and run_dir.is_dir():
            stopping.watch_workers(self._config, self._local_pids)

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended: if by a mistake of the user's, the run ends by it."""
        output = getattr(node, "workeroutput", None)  # one that died left none
        mistake = output.get(MISTAKE) if output else None
        if mistake is None:
            return
        from pytest_nfvperf.plugin.hooks import refuse  # noqa: PLC0415 - the plugin imports this module

        error = pytest.UsageError(mistake)
        refuse(self._config, [], error)
        raise error

    def _local_pids(self) -> list[int]:
        """Of the workers on this machine that still run; execnet tells them by the process that it started."""
        started = [getattr(node.gateway._io, "popen", None) for node in self._nodes if node.gateway.spec.popen]
        return [process.pid for process in started if process is not None and process.poll() is None]

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where this run's results go."""
        from pytest_nfvperf.plugin.hooks import LOADGROUP, OPTIONS_KEY  # noqa: PLC0415 - the plugin imports this module
        from pytest_nfvperf.plugin.rundir import run_directory  # noqa: PLC0415

        node.workerinput[RUN_DIR] = str(run_directory(node.config, node.config.stash[OPTIONS_KEY]))
        node.workerinput[LOADGROUP] = node.config.getoption("dist") == "loadgroup"
