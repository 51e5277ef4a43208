"""Hooks of pytest-xdist's controller: it distributes the tests, and stores what workers report.

The plugin registers them in runs with workers, which share the controller's run directory.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import pytest

from pytest_nfvperf.plugin import run_end
from pytest_nfvperf.plugin.output import say
from pytest_nfvperf.plugin.run_state import FAR, MISTAKE, OPTIONS_KEY, RUN_DIR, RUN_DIR_KEY, run_directory
from pytest_nfvperf.plugin.scheduler import ControllerChannel, DeferredScheduler, tolerate_failed_starts
from pytest_nfvperf.plugin.worker import refuse_not_utf8

LOST = "nfv_lost"
"""Attribute of a test's report: its worker died, and the test is repeated."""


class XdistHooks:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._nodes: list[Any] = []
        self._channel: ControllerChannel | None = None
        self._lost: dict[str, str] = {}

    @pytest.hookimpl
    def pytest_xdist_setupnodes(self, config: pytest.Config) -> None:
        """Prepare for worker starts that fail."""
        refuse_not_utf8([*config.args, str(config.rootpath), *map(str, config.invocation_params.args)])
        dsession = config.pluginmanager.get_plugin("dsession")
        if dsession is None or config.getoption("dist") == "each":
            return  # every worker runs every test: nothing is distributed
        say_line, options = partial(say, config), config.stash[OPTIONS_KEY]
        self._channel = ControllerChannel(say_line, options.labels)
        tolerate_failed_starts(dsession.nodemanager, say_line)

    @pytest.hookimpl
    def pytest_testnodeready(self, node: Any) -> None:
        self._nodes.append(node)

    @pytest.hookimpl
    def pytest_runtest_logstart(self) -> None:
        # The directory exists once a test measures. Then signals to the controller are passed on to the workers.
        run_dir = self._config.stash.get(RUN_DIR_KEY, None)
        if self._nodes and run_dir is not None and run_dir.is_dir():
            run_end.watch_workers(self._config, self._local_pids)

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any) -> None:
        """End the run if a user's mistake ended the worker."""
        if self._channel is not None:
            self._channel.close(node)
        output = getattr(node, "workeroutput", None)  # a worker that died left none
        mistake = output.get(MISTAKE) if output else None
        if mistake is not None:
            self._refuse(mistake)

    def _refuse(self, mistake: str) -> NoReturn:
        from pytest_nfvperf.plugin.run_result import refuse  # noqa: PLC0415 - only for a run that is refused

        error = pytest.UsageError(mistake)
        refuse(self._config, [], error)
        raise error

    def _local_pids(self) -> list[int]:
        """Process ids of the running workers on this machine, which execnet started as children."""
        started = [getattr(node.gateway._io, "popen", None) for node in self._nodes if node.gateway.spec.popen]
        return [process.pid for process in started if process is not None and process.poll() is None]

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """Send a new worker the directory for results, and open the channel to it."""
        spec = node.gateway.spec
        options = node.config.stash[OPTIONS_KEY]
        run_dir = run_directory(node.config, options)
        node.workerinput[RUN_DIR] = str(run_dir)
        node.workerinput[FAR] = bool(not spec.popen or spec.chdir)
        if options.resume is not None:
            from pytest_nfvperf.plugin.resume import send_earlier_run  # noqa: PLC0415 - only for resumed runs

            send_earlier_run(node.config, node.workerinput)
        if self._channel is not None:
            self._channel.open(node)

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> object | None:
        dsession = config.pluginmanager.get_plugin("dsession")
        if self._channel is None or dsession is None:
            return None
        standard = dsession.pytest_xdist_make_scheduler(config, log)
        return DeferredScheduler(config, standard, self._channel, self._refuse)

    @pytest.hookimpl(trylast=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport, sched: Any) -> None:
        """Repeat the test of a worker that died once, on the next free worker."""
        if self._channel is None or not isinstance(sched, DeferredScheduler) or not sched.is_ours:
            return
        if report.outcome not in {"passed", "failed", "skipped"}:
            return  # pytest-rerunfailures has it repeated
        worker = report.node.gateway.id
        earlier_worker = self._lost.get(crashitem)
        self._lost[crashitem] = worker
        # xdist replaces no more workers than --max-worker-restart says.
        dsession = self._config.pluginmanager.get_plugin("dsession")
        most_restarts = getattr(dsession, "_max_worker_restart", None)
        replaced = most_restarts is None or getattr(dsession, "_failed_nodes_count", 0) < most_restarts
        died = f"{worker} died while it ran {crashitem}"
        if earlier_worker is not None:
            say(self._config, f"{died}, as {earlier_worker} did before: it is not repeated again")
            sched.mark_test_lost(crashitem)
        elif not replaced:
            say(self._config, f"{died}; no worker is started in its place")
            sched.mark_test_lost(crashitem)
        else:
            say(self._config, f"{died}: the test is repeated")
            report.outcome = "rerun"  # type: ignore[assignment]
            setattr(report, LOST, True)
            sched.mark_test_pending(crashitem)
