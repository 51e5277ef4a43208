"""SLA files of a run: what their rules are called where they are read elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

import pytest_nfvperf
from pytest_nfvperf.session.slas import shown_place

INSTALLED = Path(pytest_nfvperf.__file__).parent


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("/root/x/suites/cost/sla.yaml:6: rules[0]", "suites/cost/sla.yaml:6: rules[0]"),
        ("suites/cost/sla.yaml:6: rules[0]", "suites/cost/sla.yaml:6: rules[0]"),
        ("/root/xy/sla.yaml:6: rules[0]", "/root/xy/sla.yaml:6: rules[0]"),
        (f"{INSTALLED}/suites/cost/sla.yaml", "pytest_nfvperf/suites/cost/sla.yaml"),
        ("dut.ovs.hw_offload: true", "dut.ovs.hw_offload: true"),
    ],
)
def test_a_place_is_named_from_the_rootdir_or_from_the_package(place: str, shown: str) -> None:
    assert shown_place(place, Path("/root/x")) == shown
