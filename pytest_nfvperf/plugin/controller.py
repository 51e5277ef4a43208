"""Hooks of the controller of pytest-xdist's workers: it deals the tests, and keeps what workers tell.

They exist only with pytest-xdist. Workers on this machine share the controller's run directory.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_nfvperf.plugin.controller_channel import ControllerChannel
from pytest_nfvperf.plugin.output import say
from pytest_nfvperf.plugin.run_state import FAR, MISTAKE, OPTIONS_KEY, RUN_DIR, RUN_DIR_KEY, run_directory
from pytest_nfvperf.plugin.worker_channel import refuse_not_utf8

if TYPE_CHECKING:
    from pytest_nfvperf.plugin.scheduler import LateChoice

LOST = "nfv_lost"
"""Attribute of the report that a test was lost with its worker, and is repeated."""

_EACH = "each"


class XdistHooks:
    """Registered by the plugin when xdist is there."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._nodes: list[Any] = []
        self._channel: ControllerChannel | None = None
        self._scheduler: LateChoice | None = None
        self._lost: dict[str, str] = {}

    @pytest.hookimpl
    def pytest_xdist_setupnodes(self, config: pytest.Config) -> None:
        """The first workers are about to be started: one that fails to start shall not end the run."""
        refuse_not_utf8([*config.args, str(config.rootpath), *map(str, config.invocation_params.args)])
        dsession = config.pluginmanager.get_plugin("dsession")
        if dsession is None or config.getoption("dist") == _EACH:
            return  # with "each" every worker runs every test: nothing is dealt
        from pytest_nfvperf.plugin.far_files import CopiedFiles  # noqa: PLC0415 - only with workers
        from pytest_nfvperf.plugin.scheduler import outlive_failed_starts  # noqa: PLC0415 - only with workers

        tell, options = partial(say, config), config.stash[OPTIONS_KEY]
        copied = CopiedFiles(run_directory(config, options), config.getoption("--alluredir", None), tell)
        self._channel = ControllerChannel(tell, options.labels, copied.store)
        outlive_failed_starts(dsession.nodemanager, tell)

    @pytest.hookimpl
    def pytest_testnodeready(self, node: Any) -> None:
        """A worker runs."""
        self._nodes.append(node)

    @pytest.hookimpl
    def pytest_runtest_logstart(self) -> None:
        """A worker has begun a test. If one measures, which its evidence says, signals to us are for the workers."""
        from pytest_nfvperf.plugin import stopping  # noqa: PLC0415 - only with workers

        run_dir = self._config.stash.get(RUN_DIR_KEY, None)
        if self._nodes and run_dir is not None and run_dir.is_dir():
            stopping.watch_workers(self._config, self._local_pids)

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended: if by a mistake of the user's, the run ends by it."""
        from pytest_nfvperf.plugin.scheduler import NotStarted  # noqa: PLC0415 - only with workers

        if self._channel is not None:
            self._channel.close(node)
        if isinstance(node, NotStarted):
            self._leave_out(node.why)
        output = getattr(node, "workeroutput", None)  # one that died left none
        mistake = output.get(MISTAKE) if output else None
        if mistake is not None:
            self._refuse(mistake)

    def _leave_out(self, why: str) -> None:
        """A worker cannot be started: the run goes on with the others, as long as there are some."""
        if self._channel is None or self._scheduler is None:
            return
        if (self._channel.has_workers or self._scheduler.tests_finished) and self._scheduler.leave_out():
            return
        from pytest_nfvperf.model.evidence.conclusion import EXIT_STATUS, RunFate  # noqa: PLC0415 - as it says

        reason = f"No worker is left to run the tests: the last could not be started ({why})"
        pytest.exit(reason, returncode=EXIT_STATUS[RunFate.BROKEN])

    def _refuse(self, mistake: str) -> NoReturn:
        from pytest_nfvperf.plugin.run_result import refuse  # noqa: PLC0415 - only for a run that is refused

        error = pytest.UsageError(mistake)
        refuse(self._config, [], error)
        raise error

    def _local_pids(self) -> list[int]:
        """Of the workers on this machine that still run; execnet tells them by the process that it started."""
        started = [getattr(node.gateway._io, "popen", None) for node in self._nodes if node.gateway.spec.popen]
        return [process.pid for process in started if process is not None and process.poll() is None]

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where this run's results go, and open the channel to it."""
        spec = node.gateway.spec
        options = node.config.stash[OPTIONS_KEY]
        run_dir = run_directory(node.config, options)
        node.workerinput[RUN_DIR] = str(run_dir)
        node.workerinput[FAR] = bool(not spec.popen or spec.chdir)
        if options.resume is not None:
            from pytest_nfvperf.plugin.resuming import tell_worker  # noqa: PLC0415 - only for who resumes

            tell_worker(node.config, node.workerinput, far=node.workerinput[FAR])
        if self._channel is not None:
            self._channel.open(node)

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> object | None:
        """Ours, for runs that measure; xdist's own for all others, and for ``--dist each``."""
        dsession = config.pluginmanager.get_plugin("dsession")
        if self._channel is None or dsession is None:
            return None
        from pytest_nfvperf.plugin.scheduler import LateChoice  # noqa: PLC0415 - only with workers

        standard = dsession.pytest_xdist_make_scheduler(config, log)
        self._scheduler = LateChoice(config, standard, self._channel, self._refuse)
        return self._scheduler

    @pytest.hookimpl(trylast=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport, sched: Any) -> None:
        """A worker was lost with the test that it ran: it is repeated once, on the next worker that is free."""
        from pytest_nfvperf.plugin.scheduler import LateChoice  # noqa: PLC0415 - only with workers

        if self._channel is None or not isinstance(sched, LateChoice) or not sched.is_ours:
            return
        if report.outcome not in {"passed", "failed", "skipped"}:
            return  # pytest-rerunfailures has it repeated
        who = report.node.gateway.id
        before = self._lost.get(crashitem)
        self._lost[crashitem] = who
        if before is not None:
            say(self._config, f"{who} died while it ran {crashitem}, as {before} did before: it is not repeated again")
            sched.mark_test_lost(crashitem)
        elif not self._is_replaced():
            say(self._config, f"{who} died while it ran {crashitem}; no worker is started in its place")
            sched.mark_test_lost(crashitem)
        else:
            say(self._config, f"{who} died while it ran {crashitem}: the test is repeated")
            report.outcome = "rerun"  # type: ignore[assignment]
            setattr(report, LOST, True)
            sched.mark_test_pending(crashitem)

    def _is_replaced(self) -> bool:
        """False once xdist has replaced as many workers as it may (``--max-worker-restart``)."""
        dsession = self._config.pluginmanager.get_plugin("dsession")
        most = getattr(dsession, "_max_worker_restart", None)
        return most is None or getattr(dsession, "_failed_nodes_count", 0) < most
