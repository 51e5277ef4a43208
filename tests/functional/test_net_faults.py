"""What goes wrong with namespaces and links: each a clear error, or an invalid trial, and nothing stays."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyroute2 import IPRoute, netns

from pytest_nfvperf.adapters.machine.reaper import reap
from pytest_nfvperf.adapters.net.borrowed_interfaces import remove_link
from pytest_nfvperf.adapters.net.cabling import Cabling
from pytest_nfvperf.adapters.net.ends import End, Ethtool, VethPair, configure
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace, NamespacePlan
from pytest_nfvperf.adapters.net.netlink import NETLINK_GENERIC, Netlink
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.ovs import private_ovs
from pytest_nfvperf.adapters.ovs.built_topology import refuse_too_deep
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.disturbance import validity as trial_validity
from pytest_nfvperf.model.disturbance.trial import Reason, TrialResult
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.measure.ledger import deltas
from pytest_nfvperf.model.topology.compose import CHAIN_NETWORK, bridge_chain
from pytest_nfvperf.model.topology.ports import NicKind, Offloads
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, RigHealth, TrialSpec
from tests.functional.ovs_support import (
    far_ends,
    leftovers,
    needs_root,
    phy2phy,
    run_base,
    send_tcp,
    started,
    until,
    with_nics,
)

pytestmark = needs_root


@pytest.fixture(scope="module")
def running(journal: Journal) -> Iterator[OvsDatapath]:
    with started(journal, "netdev", "faults") as ovs:
        yield ovs


@pytest.fixture
def ovs(running: OvsDatapath, journal: Journal) -> Iterator[OvsDatapath]:
    noted = journal.entries
    yield running
    running.remove_topologies()
    assert journal.entries == noted


@pytest.fixture
def home(journal: Journal) -> Iterator[LiveNamespace]:
    made = LiveNamespace(journal, "home")
    yield made
    made.close()


CHAIN = bridge_chain(2, link="veth", ends="namespace")


def test_a_namespace_deleted_under_a_running_test_is_named(ovs: OvsDatapath) -> None:
    built = ovs.build(CHAIN)
    built.wait_ready(5)
    ovs.check_alive()
    netns.remove(built.netns("end1"))
    with pytest.raises(TestbedError, match=r"namespace 'end1' \(nfv-\w+-faults-end1\) is gone: somebody removed it"):
        ovs.check_alive()
    built.close()


def test_a_veth_pair_that_is_removed_or_set_down_is_named(ovs: OvsDatapath) -> None:
    built = ovs.build(CHAIN)
    built.wait_ready(5)
    with IPRoute(netns=built.netns("end0")) as links:
        links.link("set", index=links.link_lookup(ifname="eth0")[0], state="down")
        with pytest.raises(TestbedError, match=r"interface 'end0' has no link: it, or its other end, was set down"):
            ovs.check_alive()
        links.link("set", index=links.link_lookup(ifname="eth0")[0], state="up")
        ovs.check_alive()
        links.link("del", index=links.link_lookup(ifname="eth0")[0])
    with pytest.raises(TestbedError, match=r"interface 'end0' is gone: somebody removed it, or its other end"):
        ovs.check_alive()
    built.close()


def test_a_veth_pulled_and_put_back_during_a_trial_makes_it_invalid(ovs: OvsDatapath, result: TrialResult) -> None:
    """It has link before and after; the kernel's counter tells that it had none meanwhile."""
    built = ovs.build(phy2phy())
    built.wait_ready(5)
    links = next(collector for collector in ovs.collectors() if collector.snapshot().source == "links")
    before = links.snapshot()
    far = far_ends(built)[1]
    with IPRoute() as ours:
        for state in ("down", "up"):
            ours.link("set", index=ours.link_lookup(ifname=far)[0], state=state)
    ovs.check_alive()
    moved = {change.name: change.delta for change in deltas(before, links.snapshot())}
    (reason,) = trial_validity.testbed_reasons(result, moved, {})
    assert (reason.code, reason.detail) == (Reason.LINK_DOWN, "p1 lost its link 1x meanwhile")
    built.close()


@pytest.fixture
def result() -> TrialResult:
    return TrialResult(TrialSpec(Traffic(64), 1, 1.0, (Direction("p0", "p1"),)), (), RigHealth())


def test_a_patch_chain_deeper_than_ovs_follows_is_refused(ovs: OvsDatapath) -> None:
    """OVS builds a longer one without a word, and drops every frame on it."""
    with pytest.raises(ConfigError, match=r"'chain-1000-patch' has 999 patch ports in a row \(1000 bridges\), and OVS"):
        ovs.build(bridge_chain(1000))
    refuse_too_deep(bridge_chain(65))
    longest = ovs.build(bridge_chain(65, ends="namespace"))
    longest.wait_ready(10)
    assert send_tcp(longest.netns("end0"), longest.netns("end1"), f"{CHAIN_NETWORK}.2", b"x") == b"x"


@pytest.mark.thorough("many of them")
def test_more_bridges_than_the_machine_can_say_what_is_short(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a thousand would on a machine of usual limits; vswitchd gives up itself, and the next one starts."""
    monkeypatch.setattr(private_ovs.resource, "getrlimit", lambda _: (120, 120))
    with (
        started(journal, "netdev", "short") as ovs,
        pytest.raises(TestbedError, match=r"Too many open files.*; the hard limit of open files here is 120 "),
    ):
        ovs.build(bridge_chain(40, link="veth", ends="namespace"))
    monkeypatch.undo()
    with started(journal, "netdev", "short") as ovs:
        ovs.build(CHAIN).wait_ready(5)


def test_a_name_that_is_taken_is_named_and_its_owner_stays(ovs: OvsDatapath) -> None:
    namespace = ovs.instance.namespace
    assert namespace is not None
    with IPRoute(netns=namespace.name) as links:
        links.link("add", kind="veth", ifname="chain-1-2", peer={"ifname": "elsewhere"})
        with pytest.raises(TestbedError, match=r"'chain-1-2': there is one of this name in nfv-\w+-faults, which"):
            ovs.build(CHAIN)
        assert links.link_lookup(ifname="chain-1-2")
        assert not links.link_lookup(ifname="end0"), "what was made before it is gone again"
        links.link("del", index=links.link_lookup(ifname="elsewhere")[0])


def test_interfaces_that_look_like_ours_stay(ovs: OvsDatapath, journal: Journal) -> None:
    """Same prefix and number as the next of ours, and not in the journal."""
    taken = int(journal.link_name().rpartition("v")[2]) + 1
    name, far = f"{journal.tag}v{taken}", f"{journal.tag}far"
    with IPRoute() as ours:
        ours.link("add", kind="veth", ifname=name, peer={"ifname": far})
        try:
            built = ovs.build(phy2phy())
            assert name not in far_ends(built)
            built.close()
            assert ours.link_lookup(ifname=name)
        finally:
            remove_link(name)


def test_an_offload_that_the_driver_fixes_is_named_with_the_kernels_words(home: LiveNamespace) -> None:
    def fix() -> None:
        with Netlink(NETLINK_GENERIC) as netlink:
            Ethtool(netlink).apply("lo", Offloads(rx_checksum=False))

    expected = (
        r"rx_checksum of interface 'lo' cannot be switched off: its driver does not let it be changed; .*\[fixed\]"
    )
    with pytest.raises(TestbedError, match=expected):
        inside(home.path, fix)


def test_tso_without_the_checksum_that_it_needs_is_named(home: LiveNamespace) -> None:
    (far,) = LiveNamespace.several(home._journal, [NamespacePlan("far")])
    cabling = Cabling(home._journal, home)
    wrong = End("eth0", far.path, offloads=Offloads(tso=True, tx_checksum=False))
    with pytest.raises(TestbedError, match=r"tso of interface 'eth0' cannot be switched on: .*forbids it; the kernel"):
        cabling.join([VethPair(End("near", home.path), wrong)])
    cabling.close()
    far.close()


def test_a_tap_that_has_no_tso_is_named_and_nothing_stays(ovs: OvsDatapath) -> None:
    wrong = with_nics(CHAIN, kind=NicKind.TAP, offloads=Offloads(tso=True))
    with pytest.raises(TestbedError, match="tso of interface 'eth0' cannot be switched on"):
        ovs.build(wrong)
    assert ovs.instance.db.rows("Interface") == {}


def test_an_address_that_the_kernel_refuses_is_named(ovs: OvsDatapath) -> None:
    wrong = with_nics(CHAIN, addresses=("127.0.0.1/8", "127.0.0.1/8"))
    with pytest.raises(TestbedError, match=r"the kernel refused to give eth0 the address 127\.0\.0\.1/8: File exists"):
        ovs.build(wrong)


def test_a_route_to_nowhere_is_named(journal: Journal, home: LiveNamespace) -> None:
    with pytest.raises(
        TestbedError, match=r"the kernel refused to make the route to 10\.9\.0\.0/16 by 10\.8\.0\.1: Net"
    ):
        configure([End("lo", home.path)], {home.path: [("10.9.0.0/16", "10.8.0.1")]})


MORE = pytest.mark.thorough("another moment")

CHILD = """
import sys
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.model.topology.compose import bridge_chain
from tests.functional.ovs_support import started
journal = open_journal(Path(sys.argv[1]))
with started(journal, "netdev") as ovs:
    print(journal.tag, flush=True)
    ovs.build(bridge_chain(64, link="veth", ends="namespace"))
    print("built", flush=True)
"""


@pytest.mark.parametrize("moment", [0, *(pytest.param(number, marks=MORE) for number in range(1, 4))])
def test_kill_9_in_the_middle_of_building_64_bridges(moment: int) -> None:
    """Steps: kill the run while it builds; reap. Verify: all of it is gone, and a look-alike is not."""
    with run_base() as base:
        argv = [sys.executable, "-c", CHILD, str(base)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            tag = child.stdout.readline().strip()
            time.sleep(random.Random(moment).uniform(0, 0.25))  # the moment is what is tried, not a readiness
            child.kill()
        looks_like = f"{tag}v77"
        with IPRoute() as ours:
            ours.link("add", kind="veth", ifname=looks_like, peer={"ifname": f"x{tag}"})
            try:
                assert reap(base).failed == ()
                assert ours.link_lookup(ifname=looks_like), "it is in no journal"
            finally:
                remove_link(looks_like)
        assert until(lambda: leftovers(tag) == []), leftovers(tag)
        assert [path.name for path in base.iterdir()] == ["reap.lock"]


@pytest.mark.thorough("many of them")
def test_two_hundred_namespaces_come_and_go(journal: Journal, home: LiveNamespace) -> None:
    cabling = Cabling(journal, home)
    plans = {f"n{i}": NamespacePlan(f"n{i}") for i in range(200)}
    cabling.make_namespaces(plans)
    cabling.join([_pair(home, cabling.namespace(name), name, f"10.0.0.{i + 1}/16") for i, name in enumerate(plans)])
    assert until(lambda: cabling.not_running() == [])
    cabling.check()
    assert "10.0.0.200/16" in cabling.namespace("n199").run(["ip", "-br", "address"])
    cabling.close()
    assert inside(home.path, partial(_names_here)) == ["lo"]
    assert not list(Path("/run/netns").glob(f"*{journal.tag}-n*"))


def _pair(home: LiveNamespace, namespace: LiveNamespace, name: str, address: str) -> VethPair:
    return VethPair(End(f"p{name}", home.path), End("eth0", namespace.path, addresses=(address,)))


def _names_here() -> list[str]:
    with IPRoute() as links:
        return [str(link.get_attr("IFLA_IFNAME")) for link in links.get_links()]


@pytest.mark.thorough("many of them")
def test_64_bridges_and_a_star_of_many_ports_come_and_go(ovs: OvsDatapath) -> None:
    chain: Topology = dataclasses.replace(bridge_chain(64, ends="namespace"), name="sixty-four")
    built = ovs.build(chain)
    built.wait_ready(10)
    assert send_tcp(built.netns("end0"), built.netns("end1"), f"{CHAIN_NETWORK}.2", b"x") == b"x"
    assert len(ovs.instance.db.rows("Bridge")) == 64
    built.close()
    assert ovs.instance.db.rows("Interface") == {}
    assert "bridge ovs-" not in ovs.instance.problems(), "its taps went quietly"
