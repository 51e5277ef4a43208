"""Two namespaces joined by a veth pair, and an iperf3 engine between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyroute2 import IPRoute

from pytest_nfvperf.adapters.generators.iperf3 import Iperf3Engine
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace, NamespacePlan
from pytest_nfvperf.adapters.net.threads import inside_netns
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.testbed.testbed import StreamsSpec
from pytest_nfvperf.ports.generator import StreamEnd
from tests.functional.ovs_support import clean_run

ADDRESSES = ("198.18.0.1", "198.18.0.2")
ADDRESSES_6 = ("2001:2::1", "2001:2::2")


@dataclass
class Pair:
    """Two namespaces, ``client`` and ``server`` ends in them."""

    journal: Journal
    namespaces: tuple[LiveNamespace, LiveNamespace]
    client: StreamEnd
    server: StreamEnd

    def engine(self, ports: tuple[int, ...] = (), margin_s: float = 8.0) -> Iperf3Engine:
        """An engine of this run."""
        return Iperf3Engine(self.journal, StreamsSpec(ports=ports), margin_s)

    @property
    def devices(self) -> tuple[str, ...]:
        """The ends as iperf3's generator names its devices."""
        return tuple(
            f"namespace={end.namespace},address={end.address},interface={end.interface}"
            for end in (self.client, self.server)
        )

    def unplug(self) -> None:
        """Remove the veth pair."""
        change(self.client, lambda links, index: links.link("del", index=index))

    def set_down(self) -> None:
        """Take the client's end down: both lose their carrier."""
        change(self.client, lambda links, index: links.link("set", index=index, state="down"))


def change(end: StreamEnd, act: Callable[[IPRoute, int], object]) -> None:
    """Do something to the interface of an end, from inside its namespace."""

    def there() -> None:
        with IPRoute() as links:
            act(links, links.link_lookup(ifname=end.interface)[0])

    inside_netns(end.namespace, there)


def _address(end: StreamEnd, mtu: int) -> None:
    given = {"address": end.address, "prefixlen": 24}
    if ":" in end.address:
        given = {"address": end.address, "prefixlen": 64, "flags": 0x2}  # IFA_F_NODAD: there at once
    change(end, lambda links, index: links.addr("add", index=index, **given))
    change(end, lambda links, index: links.link("set", index=index, mtu=mtu, state="up"))


def joined(journal: Journal, mtu: int = 1500, addresses: Sequence[str] = ADDRESSES) -> Pair:
    """Two new namespaces of a run, joined; the journal's end removes them."""
    plans = [NamespacePlan(role, ipv6=":" in addresses[0]) for role in ("client", "server")]
    spaces = tuple(LiveNamespace.several(journal, plans))
    names = ("client0", "server0")
    with IPRoute(netns=spaces[0].name) as links:
        links.link("add", ifname=names[0], kind="veth", peer={"ifname": names[1], "net_ns_fd": str(spaces[1].path)})
    ends = [StreamEnd(space.name, *rest) for space, *rest in zip(spaces, addresses, names, strict=True)]
    for end in ends:
        _address(end, mtu)
    return Pair(journal, (spaces[0], spaces[1]), *ends)


@contextmanager
def pair(mtu: int = 1500, addresses: Sequence[str] = ADDRESSES) -> Iterator[Pair]:
    """The pair; afterwards nothing of it may be left on the machine."""
    with clean_run() as journal:
        yield joined(journal, mtu, addresses)
