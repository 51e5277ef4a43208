"""What became of a test, in the running test's Allure result.

Allure's "failed" is a FAIL (an SLA or an assertion); what says nothing about the DUT is "broken". By itself it would go
by the exception's class, and call an assertion of a fixture a failure.
"""

from __future__ import annotations

from typing import Any

import allure
import allure_commons
from allure_commons.model2 import Status, StatusDetails

from pytest_nfvperf.model.evidence.conclusion import Fate, TestConclusion

RESULT = "nfvperf.result"
STATUS = {
    Fate.FAILED: Status.FAILED,
    Fate.INCONCLUSIVE: Status.BROKEN,
    Fate.BROKEN: Status.BROKEN,
    Fate.USAGE: Status.BROKEN,
    Fate.INTERNAL: Status.BROKEN,
    Fate.UNFINISHED: Status.BROKEN,
    Fate.NOT_RUN: Status.SKIPPED,
}
"""For what Allure by itself would call something else; it knows what passed and what was skipped."""


def tell_allure(became: TestConclusion) -> None:
    """Set label and status of the running test; does nothing without ``--alluredir``."""
    dynamic: Any = allure.dynamic
    result = _running()
    if result is not None:  # an earlier attempt of a test that another plugin repeats
        result.labels = [label for label in result.labels if label.name != RESULT]
    dynamic.label(RESULT, str(became.fate))
    status = STATUS.get(became.fate)
    if result is None or status is None or became.tolerated:
        return
    result.status = status
    details = result.statusDetails or StatusDetails()
    details.message = details.message or became.reason
    result.statusDetails = details


def _running() -> Any:
    """The result that allure-pytest will write at the end of this test; its public API sets no status."""
    plugins = allure_commons.plugin_manager.get_plugins()
    logger = next((plugin.allure_logger for plugin in plugins if hasattr(plugin, "allure_logger")), None)
    return None if logger is None else logger.get_test(None)
