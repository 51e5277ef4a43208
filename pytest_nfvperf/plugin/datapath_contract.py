"""What every datapath keeps to, as tests that a third party's inherit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.backends.foreign_datapaths import DatapathMaker, running_datapath
from pytest_nfvperf.model.measure.ledger import deltas
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import endpoint
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Datapath

_READY_S = 15.0


class DatapathContract:
    """Inherit it in a test class, and give it your maker.

    Attributes:
        maker: starts the datapath, which is closed after each test; what it leaves then is an error.
        topology: what the tests build: two generator ports on a bridge that learns, if you say nothing else.
        needs_far_ends: True for ports that have no link before a generator took their other ends (vhost-user).
    """

    maker: DatapathMaker
    topology: Topology = compose("contract", endpoint("p0", "br0"), endpoint("p1", "br0"))
    needs_far_ends = False

    @pytest.fixture
    def datapath(self) -> Iterator[Datapath]:
        """The datapath under test. A class can have a fixture of its own instead."""
        if not hasattr(self, "maker"):
            raise pytest.UsageError(
                f"{type(self).__name__} has no 'maker': write the DatapathMaker under test, such as 'maker = MyMaker()'"
            )
        with running_datapath(self.maker) as datapath:
            yield datapath

    def test_it_says_what_it_is(self, datapath: Datapath) -> None:
        """Kind, version and how it runs are in every report."""
        info = datapath.info()
        assert info.kind
        assert info.version
        assert info.detail

    def test_every_port_of_the_topology_has_an_attachment(self, datapath: Datapath) -> None:
        """In the topology's order, with what the generator reaches it by; and the configuration is evidence."""
        built = datapath.build(self.topology)
        assert built.topology == self.topology
        attachments = built.attachments()
        assert list(attachments) == [port.name for port in self.topology.ports]
        assert all(attachments.values())
        assert built.configuration()
        built.close()

    def test_building_does_not_wait_for_links(self, datapath: Datapath) -> None:
        """Nobody is attached, and yet it returns; closing needs nobody either, and may be done twice."""
        for _ in range(2):
            built = datapath.build(self.topology)
            built.close()
            built.close()

    def test_it_becomes_ready(self, datapath: Datapath) -> None:
        """Once the far ends are there."""
        if self.needs_far_ends:
            pytest.skip("its ports have no link before a generator took them")
        built = datapath.build(self.topology)
        built.wait_ready(_READY_S)
        built.close()

    def test_a_namespace_that_is_not_there_has_no_name(self, datapath: Datapath) -> None:
        """KeyError, and not a name that nobody made."""
        built = datapath.build(self.topology)
        with pytest.raises(KeyError):
            built.netns("nobody")
        built.close()

    def test_counters_are_named_sorted_and_do_not_fall(self, datapath: Datapath) -> None:
        """Each source is called something, and a counter that is missing is missing."""
        built = datapath.build(self.topology)
        for collector in datapath.collectors():
            before, after = collector.snapshot(), collector.snapshot()
            assert before.source == after.source != ""
            assert after.time_ns >= before.time_ns
            names = [name for name, _ in after.counters]
            assert names == sorted(set(names))
            assert not [change for change in deltas(before, after) if change.went_back]
        built.close()

    def test_collectors_have_sources_of_their_own(self, datapath: Datapath) -> None:
        """Snapshots are paired by source: two of one name would be taken for each other."""
        sources = [collector.snapshot().source for collector in datapath.collectors()]
        assert len(set(sources)) == len(sources)

    def test_it_is_alive(self, datapath: Datapath) -> None:
        """With a topology and without."""
        datapath.check_alive()
        built = datapath.build(self.topology)
        datapath.check_alive()
        built.close()
        assert all(isinstance(text, str) for text in datapath.logs().values())

    def test_closing_it_closes_what_stands_on_it(self, datapath: Datapath) -> None:
        """In any order, and twice."""
        built = datapath.build(self.topology)
        datapath.close()
        datapath.close()
        built.close()
