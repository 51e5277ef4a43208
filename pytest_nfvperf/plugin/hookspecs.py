"""Hooks that a conftest.py or another plugin can implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_nfvperf.adapters.ovs.nics import NicMaker
    from pytest_nfvperf.backends.base import Backend
    from pytest_nfvperf.backends.foreign_datapaths import DatapathMaker
    from pytest_nfvperf.model.testbed.testbed import Testbed
    from pytest_nfvperf.ports.generator import Capture


@pytest.hookspec(firstresult=True)
def pytest_nfvperf_make_backend(config: pytest.Config, testbed: Testbed) -> Backend | None:
    """Make a testbed real in another way: a vendor's generator, a simulator.

    Return None to leave it to the next, at last to this project's own engines. Not called for --nfv-plan.
    """


@pytest.hookspec
def pytest_nfvperf_nic_makers(config: pytest.Config) -> Mapping[str, NicMaker]:  # type: ignore[empty-body]
    """Give makers of further kinds of namespaces' interfaces, such as ``{"acme:macvtap": make}``.

    A topology asks for one by ``namespace("pod1", "br-int", "10.1.0.1/24", kind="acme:macvtap")``.
    """


@pytest.hookspec
def pytest_nfvperf_datapaths(config: pytest.Config) -> Mapping[str, DatapathMaker]:  # type: ignore[empty-body]
    """Give makers of further datapaths, such as ``{"acme:wire": AcmeWire()}``.

    A test asks for one by ``deploy(topology, dut=Dut("acme:wire"))``. A whole testbed of another kind is
    ``pytest_nfvperf_make_backend``'s.
    """


@pytest.hookspec(firstresult=True)
def pytest_nfvperf_make_capture(config: pytest.Config, testbed: Testbed, output: str) -> Capture | None:
    """Receive the copies of a mirror in another way: on a lab, by a vendor's capture interface.

    ``output`` is the mirror's output port. Return None to leave it to the next, at last to a packet socket of the host.
    """
