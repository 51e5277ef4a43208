"""``--alluredir``: what the run asks of Allure. Light: the rest is imported when there is something to write."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, TestConclusion
from pytest_nfvperf.plugin.end_parts import ShownSink, failing_alone, parts_of
from pytest_nfvperf.plugin.other_results import OtherResults
from pytest_nfvperf.ports.evidence import Sink

_MISSING = "results for Allure are missing"


class AllureResults:
    """Fulfils OtherResults. ``directory``: the ``--alluredir``."""

    def __init__(self, config: pytest.Config, directory: str) -> None:
        self._config = config
        self._directory = Path(directory)
        self._parts = parts_of(config)

    def sink(self, run_dir: Path) -> Sink:
        """Writes records into the running test's result."""
        from pytest_nfvperf.plugin.allure_sink import AllureSink  # noqa: PLC0415 - see above

        _let_allure_fail_alone(self._config)
        return ShownSink(AllureSink(self._directory, run_dir), self._parts, "steps for Allure are missing")

    def interrupted(self, became: TestConclusion) -> None:
        """Allure goes by the set-up of a test that does not end, and would call it passed."""
        with self._parts.alone(_MISSING):
            from pytest_nfvperf.adapters.report.allure_results import tell_allure  # noqa: PLC0415 - see above

            tell_allure(became)

    def concluded(self, run: RunEvidence, conclusion: RunConclusion) -> None:
        """Write results of tests that no process could write one for."""
        with self._parts.alone(_MISSING):
            from pytest_nfvperf.adapters.report.allure_results import write_missing_results  # noqa: PLC0415 - see above

            write_missing_results(self._directory, run, conclusion)


ALLURE: Callable[[pytest.Config, str], OtherResults] = AllureResults


def _let_allure_fail_alone(config: pytest.Config) -> None:
    """A result that allure-pytest cannot write is missing, and the test goes on.

    Its files and its names of tests take UTF-8 alone, and a path may hold what is none: such texts are escaped first.
    """
    import allure_commons  # noqa: PLC0415 - as above

    parts = parts_of(config)
    for module in map(sys.modules.get, ("allure_commons.utils", "allure_pytest.listener", "allure_pytest.utils")):
        if hasattr(module, "md5"):
            vars(module)["md5"] = _with_storable_texts(vars(module)["md5"])
    for name in ("report_result", "report_container", "report_attached_file", "report_attached_data"):
        for impl in getattr(allure_commons.plugin_manager.hook, name).get_hookimpls():
            written = failing_alone(impl.function, parts, _MISSING, (Exception,))
            impl.function = _with_storable_texts(written)


def _with_storable_texts(function: Callable[..., object]) -> Callable[..., object]:
    from pytest_nfvperf.adapters.report.allure_results import storable_texts  # noqa: PLC0415 - as above

    return lambda *arguments: function(*map(storable_texts, arguments))
