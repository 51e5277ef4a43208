"""OVS seen once a second while a trial runs: what of its counters a soak keeps, and what it costs.

A subset of the collector's counters, by name; beside them

=========================  ================================================================
``<bridge>.openflow_packets``  packets that the bridge's OpenFlow flows matched (OFPMP_AGGREGATE)
``<port>.q<n>.rxq_busy_5s`` share of its PMD's cycles that a receive queue took in the last 5 s (OVS 3.1 and later)
``<port>.q<n>.rxq_busy``   the same of an older OVS: the mean of its last minute, which rises from 0 with a new port
``vswitchd.rss``           resident memory of ovs-vswitchd, bytes
``drops``                  frames dropped by the datapath, all reasons together
=========================  ================================================================
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.ovs.counters.ovs_collector import OvsCollector
from pytest_nfvperf.adapters.ovs.counters.pmd_sched import PmdSchedCollector
from pytest_nfvperf.adapters.ovs.counters.pmd_stats import LOOKUP_ENDS
from pytest_nfvperf.adapters.ovs.instance.running_ovs import RunningOvs
from pytest_nfvperf.adapters.ovs.instance.unixctl import UnixctlError
from pytest_nfvperf.adapters.ovs.openflow.multipart import Question, asking
from pytest_nfvperf.adapters.ovs.openflow.ofctl import OpenFlow
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.ports.datapath import SamplerReading

_PORT_COUNTERS = (".rx_packets", ".tx_packets", ".rx_dropped", ".tx_dropped")
_PMD_COUNTERS = frozenset({"packets_received", "recirculations", "cycles_busy", "cycles_idle", *LOOKUP_ENDS})
_DROPS = ("coverage.datapath_drop_", "coverage.drop_action_")
_AGGREGATE = Question(2, struct.pack("!B3xII4xQQHH4x", 0xFF, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0, 1, 4))
_AGGREGATED = struct.Struct("!Q")  # packets come first
_RXQ_SHOW = "dpif-netdev/pmd-rxq-show"
_RxqQuestion = tuple[str, tuple[str, ...]]
"""The column, and the arguments of the question."""

_RXQ = re.compile(r"port:\s*(?P<port>\S+)\s+queue-id:\s*(?P<queue>\d+).*?pmd usage:\s*(?:(?P<usage>\d+)\s*%|NOT AVAIL)")


class OvsSampler:
    """Fulfils ports.datapath.Sampler. ``collector``: of the same instance."""

    name = "ovs"

    def __init__(
        self, instance: RunningOvs, collector: OvsCollector, topologies: Callable[[], Sequence[BuiltOvsTopology]]
    ) -> None:
        self._instance = instance
        self._collector = collector
        self._topologies = topologies
        self._openflow = OpenFlow(instance.ofctl, instance.sockets)
        self._rxqs_of: _RxqQuestion | None = None
        self._tells_rxqs = True

    @property
    def pid(self) -> int:
        return self._instance.pid

    def read(self) -> SamplerReading:
        counted = self._collector.snapshot().as_dict()
        counters = {name: count for name, count in counted.items() if _kept(name)}
        counters["drops"] = sum(count for name, count in counted.items() if name.startswith(_DROPS))
        for built in self._topologies():
            counters |= self._openflow_packets(built.topology.bridges)
        return SamplerReading(counters, {"vswitchd.rss": resident_bytes(self.pid), **self._rxqs()})

    def _openflow_packets(self, bridges: Sequence[str]) -> dict[str, int]:
        found = {}
        for bridge in bridges:
            with asking(self._openflow.socket(bridge)) as connection:
                (packets,) = _AGGREGATED.unpack_from(connection.ask(_AGGREGATE))
            found[f"{bridge}.openflow_packets"] = packets
        return found

    def _rxqs(self) -> Mapping[str, float]:
        if not self._tells_rxqs:
            return {}
        if self._rxqs_of is None:
            self._rxqs_of = rxq_question(self._instance.ctl.usage(_RXQ_SHOW))
        column, arguments = self._rxqs_of
        try:
            return dict(parse_rxqs(self._instance.ctl.call(_RXQ_SHOW, *arguments), column))
        except UnixctlError:  # the kernel's datapath has none
            self._tells_rxqs = False
            return {}


class PmdSampler:
    """How long PMD threads were kept off their CPU by anybody but the DUT's own main thread."""

    name = "pmd-sched"

    def __init__(self, collector: PmdSchedCollector) -> None:
        self._collector = collector

    def read(self) -> SamplerReading:
        """Absent without PMD threads, or where the kernel does not tell."""
        counted = self._collector.snapshot().as_dict()
        waited = counted.get("pmd-sched.kept_off_ns")
        if waited is None:
            return SamplerReading()
        return SamplerReading({"pmd-sched.stolen_ns": max(0, waited - counted.get("pmd-sched.beside_run_ns", 0))})


def _kept(name: str) -> bool:
    if name.startswith(("pmd.", "main.")):
        return name.rpartition(".")[2] in _PMD_COUNTERS
    return name == "vswitchd.cpu_ns" or name.endswith(_PORT_COUNTERS)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process (proc(5), statm); TestbedError when it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except OSError as error:
        raise TestbedError(f"process {pid} is gone: its memory cannot be read") from error
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def rxq_question(usage: str | None) -> _RxqQuestion:
    """How this OVS is asked for the shortest time that it knows a queue's share of: 5 s, or else a minute."""
    return ("rxq_busy_5s", ("-secs", "5")) if usage is not None and "-secs" in usage else ("rxq_busy", ())


def parse_rxqs(text: str, column: str = "rxq_busy") -> Iterator[tuple[str, float]]:
    """``("p0.q0.rxq_busy", 0.44)`` of each line of ``pmd-rxq-show``; NaN for a usage that is not available yet."""
    for line in text.splitlines():
        found = _RXQ.search(line)
        if found is not None:
            usage = math.nan if found["usage"] is None else int(found["usage"]) / 100
            yield f"{found['port']}.q{found['queue']}.{column}", usage
