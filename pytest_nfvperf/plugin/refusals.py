"""Other people's plugins beside which nothing can be measured: the run is refused before anything is.

docs/reference/other-plugins.md lists them, and those that were tried and work.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

_ONE_AT_A_TIME = "One testbed measures one test at a time, in the thread that started it"
_SOCKETS = "OVS, the kernel and routing daemons are asked over sockets"


def refuse_others(config: pytest.Config, measuring: Sequence[pytest.Item]) -> None:
    """Look for plugins that would run these tests where they cannot measure.

    Raises:
        pytest.UsageError: there is one; names the option or mark, and what to do.
    """
    for item in measuring:
        for reason in (_forked(config, item), _threads(config, item), _no_sockets(config, item), _unreal(item)):
            if reason:
                raise pytest.UsageError(f"{item.nodeid} cannot be measured: {reason}")


def _forked(config: pytest.Config, item: pytest.Item) -> str:
    by_mark = item.get_closest_marker("forked") is not None
    if not (config.getoption("forked", False) or by_mark):
        return ""
    return (
        f"{'its mark forked' if by_mark else '--forked'} of pytest-forked runs it in a child of pytest, whose testbed "
        "and evidence nobody else has. Leave it out; `-n 1` of pytest-xdist outlives a crash as well"
    )


def _threads(config: pytest.Config, item: pytest.Item) -> str:
    if _is_loaded(config, "pytest_parallel"):
        for option in ("workers", "tests_per_worker"):
            if config.getoption(option, None):
                flag = f"--{option.replace('_', '-')}"
                why = f"{flag} of pytest-parallel runs tests at once. {_ONE_AT_A_TIME}"
                return f"{why}; leave it out (docs/how-to/several-testbeds.md)"
    for option, marks in (
        ("parallel_threads", ("parallel_threads", "force_parallel_threads")),
        ("iterations", ("iterations",)),
    ):
        if not _is_loaded(config, "pytest_run_parallel"):
            break
        found = next(filter(None, map(item.get_closest_marker, marks)), None)
        asked = found.args[0] if found is not None and found.args else config.getoption(option, 1)
        if str(asked) != "1":
            what = f"its mark {found.name}" if found is not None else f"--{option.replace('_', '-')}"
            return f"{what} of pytest-run-parallel runs it in threads. {_ONE_AT_A_TIME}; leave it out"
    return ""


def _no_sockets(config: pytest.Config, item: pytest.Item) -> str:
    """By the rules of pytest-socket: what a test asks for itself comes before the options."""
    if not _is_loaded(config, "pytest_socket") or config.getoption("--force-enable-socket", False):
        return ""
    fixtures = getattr(item, "fixturenames", ())
    if item.get_closest_marker("enable_socket") is not None or "socket_enabled" in fixtures:
        return ""
    by_test = item.get_closest_marker("disable_socket") is not None or "socket_disabled" in fixtures
    if by_test or config.getoption("--disable-socket", False):
        what = "it disables sockets" if by_test else "--disable-socket"
        return f"{what} by pytest-socket. {_SOCKETS}: mark it enable_socket"
    if item.get_closest_marker("allow_hosts") is not None or config.getoption("--allow-hosts", None):
        return f"pytest-socket allows it some hosts alone. {_SOCKETS}: mark it enable_socket"
    return ""


def _unreal(item: pytest.Item) -> str:
    if item.get_closest_marker("freeze_time") is not None or "freezer" in getattr(item, "fixturenames", ()):
        return "its clock is frozen (mark freeze_time, fixture freezer), and every deadline and rate needs a clock"
    return ""


def _is_loaded(config: pytest.Config, module: str) -> bool:
    names = (str(getattr(plugin, "__name__", "")) for plugin in config.pluginmanager.get_plugins())
    return any(name == module or name.startswith(f"{module}.") for name in names)
