"""Namespaces of a live topology between which streams and requests are sent."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.near import did_you_mean, listed
from pytest_nfvperf.model.topology.ports import Nic
from pytest_nfvperf.ports.streams import StreamEnd
from pytest_nfvperf.runs.rig import LiveTopology

Ends = tuple[str, str]
"""Namespaces of a topology, by their names there: the client's, the server's."""


def stream_ends(live: LiveTopology, ends: Ends | None = None) -> tuple[StreamEnd, StreamEnd]:
    """The first interface with an address of each of two namespaces; without names of the first one and the last.

    ConfigError lists the namespaces with addresses; TestbedError where the topology has no two of them.
    """
    nics = [nic for nic in live.topology.nics if nic.addresses]
    if ends is not None:
        client, server = (_named(live, nics, name) for name in ends)
        return client, server
    if len({nic.namespace for nic in nics}) < 2:
        raise TestbedError(f"topology {live.name!r} has no two namespaces with addresses to send streams between")
    return _end(live, nics[0]), _end(live, nics[-1])


def _named(live: LiveTopology, nics: Sequence[Nic], name: str) -> StreamEnd:
    found = next((nic for nic in nics if nic.namespace == name), None)
    if found is None:
        known = dict.fromkeys(nic.namespace for nic in nics)
        hint = did_you_mean(name, list(known))
        raise ConfigError(
            f"ends: topology {live.name!r} has no namespace {name!r} with an address{hint or '.'} There are "
            f"{listed(known) or 'none'}"
        )
    return _end(live, found)


def _end(live: LiveTopology, nic: Nic) -> StreamEnd:
    return StreamEnd(live.netns(nic.namespace), nic.addresses[0].split("/")[0], nic.name)
