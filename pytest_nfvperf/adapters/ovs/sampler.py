"""Samples of a running OVS during a soak: the PMD threads' cycles, and what the scheduler did to them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from pytest_nfvperf.adapters.ovs.counters import DROP_PREFIXES, LOOKUP_ENDS, OvsCollector
from pytest_nfvperf.adapters.ovs.ovsdb import RefusedError
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs
from pytest_nfvperf.adapters.ovs.slow_path import resident_bytes
from pytest_nfvperf.ports.datapath import SamplerReading

_SAMPLED = (".rx_packets", ".tx_packets", ".rx_dropped", ".tx_dropped", ".openflow_packets")
_PMD_COUNTERS = frozenset({"packets_received", "recirculations", "cycles_busy", "cycles_idle", *LOOKUP_ENDS})
_RXQ_SHOW = "dpif-netdev/pmd-rxq-show"
_RXQ = re.compile(r"port:\s*(?P<port>\S+)\s+queue-id:\s*(?P<queue>\d+).*?pmd usage:\s*(?:(?P<usage>\d+)\s*%|NOT AVAIL)")


class OvsSampler:
    """Samples OVS once a second while a trial runs. ``collector``: of the same OVS.

    A subset of the collector's counters, and

    =============================  ================================================================
    ``<bridge>.openflow_packets``  packets that the bridge's OpenFlow flows matched (OFPMP_AGGREGATE)
    ``<port>.q<n>.rxq_busy_5s``    share of its PMD's cycles that a receive queue took in the last 5 s (from OVS 3.1)
    ``<port>.q<n>.rxq_busy``       the same of an older OVS: its last minute's mean, rising from 0 for a new port
    ``vswitchd.rss``               resident memory of ovs-vswitchd, bytes
    ``ovs.connections``            connections that the datapath tracks
    ``drops``                      frames dropped by the datapath, for all reasons
    =============================  ================================================================
    """

    name = "ovs"

    def __init__(self, instance: RunningOvs, collector: OvsCollector) -> None:
        self._instance = instance
        self._collector = collector
        self._rxqs_of: tuple[str, tuple[str, ...]] | None = None
        self._has_rxqs = True

    def read(self) -> SamplerReading:
        counted = self._collector.sample()
        counters = {name: count for name, count in counted.items() if _is_sampled(name)}
        counters["drops"] = sum(count for name, count in counted.items() if name.startswith(DROP_PREFIXES))
        gauges = {f"ovs.{name}": number for name, number in self._collector.tracked().items()}
        gauges["vswitchd.rss"] = resident_bytes(self._instance.pid)
        return SamplerReading(counters, {**gauges, **self._rxqs()})

    def _rxqs(self) -> Mapping[str, float]:
        if not self._has_rxqs:
            return {}
        if self._rxqs_of is None:
            self._rxqs_of = rxq_question(self._instance.ctl.usage(_RXQ_SHOW))
        column, arguments = self._rxqs_of
        try:
            return dict(parse_rxqs(self._instance.ctl.call(_RXQ_SHOW, *arguments), column))
        except RefusedError:  # the kernel's datapath has no such queues
            self._has_rxqs = False
            return {}


def _is_sampled(name: str) -> bool:
    if name.startswith(("pmd.", "main.")):
        return name.rpartition(".")[2] in _PMD_COUNTERS
    return name == "vswitchd.cpu_ns" or name.endswith(_SAMPLED)


def rxq_question(usage: str | None) -> tuple[str, tuple[str, ...]]:
    """The counter's name and the arguments for the shortest period that this OVS knows: 5 s, or a minute."""
    return ("rxq_busy_5s", ("-secs", "5")) if usage is not None and "-secs" in usage else ("rxq_busy", ())


def parse_rxqs(text: str, column: str = "rxq_busy") -> Iterator[tuple[str, float]]:
    """``("p0.q0.rxq_busy", 0.44)`` of each line of ``pmd-rxq-show``; NaN for a usage that is not available yet."""
    for queue in filter(None, map(_RXQ.search, text.splitlines())):
        usage = math.nan if queue["usage"] is None else int(queue["usage"]) / 100
        yield f"{queue['port']}.q{queue['queue']}.{column}", usage
