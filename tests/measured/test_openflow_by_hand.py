"""A ceiling is measured under a live topology: what a test did to the DUT is still there, and works."""

from __future__ import annotations

from pathlib import Path

from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from tests.functional.ovs_support import needs_hugepages, needs_root
from tests.functional.soak_support import soaking_on

pytestmark = [needs_root, needs_hugepages]


def test_a_ceiling_leaves_a_live_topology_as_the_test_made_it(tmp_path: Path) -> None:
    """Steps: a drop rule and a setting by hand; a ceiling. Verify: the same process has both, and drops one way."""
    with soaking_on(phy2phy(), tmp_path) as made:
        ovs, live, process = made.live.deployment.built.ovs, made.live, made.vswitchd()  # type: ignore[attr-defined]
        ovs("ofctl", "add-flow", "br0", "priority=999,in_port=p0,udp,actions=drop")
        ovs("vsctl", "set", "bridge", "br0", "other_config:mac-aging-time=77")
        ceiling = made.rig.ceiling_fps(live, Traffic(frame_size=777), 2, remeasured=True)
        assert ceiling is not None
        assert ceiling > 100_000
        assert (made.live, made.vswitchd()) == (live, process)
        assert "77" in ovs("vsctl", "get", "bridge", "br0", "other_config:mac-aging-time")
        spec = TrialSpec(Traffic(frame_size=777), 1000, 0.5, live.topology.directions, residual_s=0.3)
        there, back = live.runner.run_once(spec).result.counts
        assert (there.received, back.lost) == (0, 0)
        assert there.sent > 0 < back.received
        assert "priority=999" in ovs("ofctl", "dump-flows", "br0")
