"""A line for the user while a run goes on, from whichever process it comes."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from pytest_nfvperf.plugin.link import link_of


def say(config: pytest.Config, line: str) -> None:
    """Write it to the terminal; a worker of pytest-xdist has its controller write it."""
    link = link_of(config)
    if link is not None:
        link.say(line)
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None:
        return
    # The controller of workers captures nothing: it runs no test.
    controls = config.pluginmanager.hasplugin("dsession")
    with nullcontext() if controls or capture is None else capture.global_and_fixture_disabled():
        reporter.ensure_newline()
        reporter.write_line(f"nfvperf: {line}", yellow=True)
        reporter.flush()
