"""Events that move polling threads, on a real OVS that polls on both CPUs: nothing else should run beside it."""

from __future__ import annotations

import dataclasses
import re
from functools import partial

from pytest_nfvperf import events
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.topology.compose import phy2phy
from tests.functional.ovs_support import live_on, needs_hugepages, needs_root, started_on, testbed, until

pytestmark = [needs_root, needs_hugepages]


def settings(built: BuiltOvsTopology) -> list[str]:
    """Of OVS and its ports."""
    return [line for line in built.configuration().splitlines() if re.match(r"(?!duration)[a-z-]+=|port ", line)]


def test_polling_threads_of_two_cpus(journal: Journal) -> None:
    bed = testbed("dpdk")
    two = dataclasses.replace(bed, cpus=dataclasses.replace(bed.cpus, pmd=(0, 1)))
    with started_on(two, journal, "pmds") as ovs:
        built = ovs.build(phy2phy())
        live = live_on(ovs, built)
        shown = partial(built.ovs, "appctl", "dpif-netdev/pmd-rxq-show")

        def cores() -> dict[str, str]:
            """The CPU of each port."""
            return {
                port: thread.split()[3].rstrip(":")
                for thread in shown().split("pmd thread ")[1:]
                for port in re.findall(r"port: *(\S+)", thread)
            }

        earlier = settings(built)
        assert set(re.findall(r"core_id (\d+)", shown())) == {"0", "1"}
        fewer = events.change_pmd_cpus(live)
        fewer.act()
        assert until(lambda: set(re.findall(r"core_id (\d+)", shown())) == {"0"}, 5)
        assert fewer.undo is not None
        fewer.undo()
        assert until(lambda: set(re.findall(r"core_id (\d+)", shown())) == {"0", "1"}, 5)
        at = cores()
        moved = events.move_rxqs(live, "p0")
        moved.act()
        assert until(lambda: cores()["p0"] != at["p0"], 5)
        assert moved.undo is not None
        moved.undo()
        balanced = events.rebalance_rxqs(live, auto=True)
        balanced.act()
        assert "pmd-auto-lb=true" in built.configuration()
        assert balanced.undo is not None
        balanced.undo()
        events.rebalance_rxqs(live).act()
        assert events.add_port(live).undo is not None  # OVS makes a port whose VM is not there
        assert settings(built) == earlier
        built.close()
