"""A link that goes down and up, and NICs as physical and virtual functions (SR-IOV)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import (
    Convergence,
    Deployer,
    DutFailure,
    Event,
    Nics,
    SlaCheck,
    Study,
    Subject,
    Topology,
    Traffic,
    compares,
    compose,
    phy2phy,
)
from pytest_nfvperf.parts import endpoint, path

pytestmark = pytest.mark.usefixtures("nics")

CALM_FPS = 1000
DOWN_S, UP_S, TRIAL_S = 1.0, 3.0, 12.0
FLAPPED = "p1"


@pytest.mark.nfv(topology="phy2phy")
def test_link_flap(nics: Nics, deploy: Deployer, convergence: Convergence, sla: SlaCheck) -> None:
    """How long a NIC takes to forward again after its link was down for two seconds.

    Steps: build NIC - bridge - NIC; send at a calm load for 12 s; after 1 s take the second NIC's link down at the
    DUT, after 3 s bring it up; see when frames leave by it again.
    Verify: the SLA's ``recovery_time`` (from bringing it up to the first frame) and ``outage_time``. Skipped, before
    anything is measured, where the driver cannot take its link down.
    """
    live = deploy(phy2phy())
    traffic = Traffic(frame_size=128)

    def down() -> None:
        nics.set_link(live, FLAPPED, up=False)

    def up() -> None:
        nics.set_link(live, FLAPPED, up=True)

    nics.try_link(live, FLAPPED)
    events = [Event("down", DOWN_S, down), Event("up", UP_S, up)]
    reading = convergence.read(live, traffic, events, TRIAL_S, fps=CALM_FPS)
    recovered_s = reading.resumed_after_s("up", "p0")
    if reading.began_ns and recovered_s is None:
        raise DutFailure(
            f"the link of {FLAPPED} was down for two seconds, and either every frame arrived meanwhile, or none "
            f"after it ({reading.trial.id})"
        )
    seconds = {"recovery_time": [recovered_s or 0.0], "outage_time": [reading.outage_s("p0")]}
    sla.check(convergence.outcome(live, traffic, [reading], seconds))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(direction="bidirectional", frame_size="64")
@compares("function", ("pf", "vf"))
def test_vf_against_pf(function: Sequence[str], nics: Nics, study: Study, sla: SlaCheck) -> None:
    """Forwarding rate through virtual functions, and through physical ones.

    Steps: in interleaved rounds build port - bridge - port on two PFs, and on two VFs; offer line rate.
    Verify: the SLA: a VF forwards nearly as much as a PF.
    """
    subjects = [Subject(each, _through(*nics.ports_on(each))) for each in function]
    sla.check_each(study.forwarding_rate("function", subjects, Traffic(frame_size=64)))


def test_number_of_vfs(nics: Nics, sla: SlaCheck) -> None:
    """How many virtual functions the NICs can have.

    Steps: read it from the kernel (``sriov_totalvfs``); nothing is built or sent.
    Verify: the SLA's ``virtual_functions``.
    """
    sla.check(nics.virtual_functions())


def _through(first: str, second: str) -> Topology:
    """Port - bridge - port, on the ports of these names in the testbed file."""
    return compose("phy2phy", endpoint(first, "br0"), endpoint(second, "br0"), path(first, second))
