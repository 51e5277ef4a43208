"""SLA files of a run: what their rules are called where they are read elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

import pytest_nfvperf
from pytest_nfvperf.session.slas import shown_location

INSTALLED = Path(pytest_nfvperf.__file__).parent


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/root/x/suites/cost/sla.yaml:6: rules[0]", "suites/cost/sla.yaml:6: rules[0]"),
        ("suites/cost/sla.yaml:6: rules[0]", "suites/cost/sla.yaml:6: rules[0]"),
        ("/root/xy/sla.yaml:6: rules[0]", "/root/xy/sla.yaml:6: rules[0]"),
        (f"{INSTALLED}/suites/cost/sla.yaml", "pytest_nfvperf/suites/cost/sla.yaml"),
        ("dut.ovs.hw_offload: true", "dut.ovs.hw_offload: true"),
    ],
)
def test_a_place_is_named_from_the_rootdir_or_from_the_package(location: str, shown: str) -> None:
    assert shown_location(location, Path("/root/x")) == shown
