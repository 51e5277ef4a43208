"""OVS's counters around a trial, fresh and in a few milliseconds.

=============================  ==================================================================
counter                        what it is
=============================  ==================================================================
``<port>.rx_packets`` ...      OpenFlow port statistics: rx/tx packets, bytes, dropped, errors
``<port>.ovs_tx_failure_drops`` OVS's own reasons, part of tx_dropped: the far ring was full
``<port>.ovs_tx_retries``      vhost enqueue was tried again
``pmd.packets_received``       by all PMD threads (and ``pmd.c01.packets_received`` by one)
``pmd.cycles_busy/_idle``      TSC cycles on packets and on empty polls
``pmd.emc_hits`` ...           where the lookup ended: emc, smc, megaflow, upcalls_ok, upcalls_failed
``pmd.recirculations``         packets that went round again
``main.<name>``                the same of the main thread, which polls ports that are not DPDK's
``coverage.<name>``            ovs-appctl coverage/show: datapath_drop_*, drop_action_*, all others
``meter.<bridge>.<id>``        frames that a meter dropped
``flow.<bridge>.<match>``      frames of a flow without output; settles within 0.5 s
``vswitchd.cpu_ns``            CPU time of ovs-vswitchd, all threads, in steps of a clock tick
=============================  ==================================================================

Coverage counters of PMD threads reach the total only once a second (OVS: coverage_try_clear), so a
drop counted in the last second of a trial may be missing: ``settled`` waits for them.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.ovs.counters.drop_reasons import DROP_COUNTERS
from pytest_nfvperf.adapters.ovs.counters.drop_stats import read_drops
from pytest_nfvperf.adapters.ovs.counters.pmd_stats import parse_pmd_perf, parse_pmd_stats
from pytest_nfvperf.adapters.ovs.counters.port_stats import PORT_STATS, parse_port_stats
from pytest_nfvperf.adapters.ovs.instance.running_ovs import RunningOvs
from pytest_nfvperf.adapters.ovs.instance.unixctl import UnixctlError
from pytest_nfvperf.adapters.ovs.openflow.multipart import asking
from pytest_nfvperf.adapters.ovs.openflow.ofctl import OpenFlow
from pytest_nfvperf.adapters.ovs.topology.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.process.process import read_schedstat
from pytest_nfvperf.model.errors import TestbedError, UnavailableError
from pytest_nfvperf.model.ledger.ledger import CounterSnapshot
from pytest_nfvperf.model.topology.topology import Topology, all_ports

_COVERAGE = re.compile(r"^(\w+)\s.*\btotal:\s*(\d+)\s*$")
_SETTLE_S, _SETTLE_POLL_S = 1.1, 0.1
_DROP_PREFIXES = ("coverage.datapath_drop_", "coverage.drop_action_")


class OvsCollector:
    """Interfaces, PMDs, coverage and CPU of one instance, in one snapshot. Source "ovs"."""

    def __init__(self, instance: RunningOvs, topologies: Callable[[], Sequence[BuiltOvsTopology]]) -> None:
        self._instance = instance
        self._topologies = topologies
        self._openflow = OpenFlow(instance.ofctl, instance.sockets)
        self._drops: tuple[str, ...] | None = None
        self._pmd_command: str | None = None

    def snapshot(self) -> CounterSnapshot:
        counters = {**self._pmds(), **self._coverage(), **self._cpu()}
        for built in self._topologies():
            counters.update(self._ports(built))
        return CounterSnapshot("ovs", time.monotonic_ns(), tuple(sorted(counters.items())))

    def forwarding_ns(self) -> int | None:
        """How long those threads have worked that forward, in ns of virtual time; None where the kernel forwards.

        Without DPDK the main thread forwards. With it the PMD threads do: they poll all the time, so what counts is
        their rounds that had frames ("processing cycles"). In virtual time a cycle of the TSC is 1 ns.

        TestbedError when vswitchd is gone. UnavailableError where this version of OVS does not list those cycles.
        """
        options = self._instance.options
        if options.datapath_type != "netdev":
            return None
        if options.dpdk:
            return self._busy_cycles()
        pid = self._instance.pid
        try:
            return read_schedstat(Path(f"/proc/{pid}")).ran_ns
        except OSError as error:
            raise TestbedError(f"ovs-vswitchd (pid {pid}) is gone") from error

    def _busy_cycles(self) -> int:
        cycles = self._pmds().get("pmd.cycles_busy")
        if cycles is None:
            raise UnavailableError(
                "this version of OVS does not list the cycles that PMD threads spend on frames "
                "(dpif-netdev/pmd-stats-show, up to OVS 3.x), so instructions of the datapath dpdk cannot be told of "
                "it: use the datapath netdev, or compare rates"
            )
        return cycles

    def settled(self, before: CounterSnapshot, missing: int) -> CounterSnapshot:
        """A snapshot whose drop counters explain ``missing`` frames since ``before``, or hold all counted until now.

        Takes up to 1.1 s: PMDs give their counters away once a second, and OVS shows no state to wait on.
        """
        old = before.as_dict()
        until = time.monotonic() + _SETTLE_S
        while True:
            now = self.snapshot()
            drops = sum(_since(old, now.as_dict(), kind) for kind in _DROP_PREFIXES)
            flows = _since(old, now.as_dict(), "flow.")
            named = _since(old, now.as_dict(), "coverage.drop_action_of_pipeline")
            if (drops >= missing and flows >= named) or time.monotonic() > until:
                return now
            time.sleep(_SETTLE_POLL_S)

    def _ports(self, built: BuiltOvsTopology) -> dict[str, int]:
        counters: dict[str, int] = {}
        for bridge, ports in _counted_ports(built.topology).items():
            names = {number: port for number, port in built.port_names(bridge).items() if port in ports}
            with asking(self._openflow.socket(bridge)) as connection:
                stats = parse_port_stats(connection.ask(PORT_STATS))
                counters |= read_drops(connection, bridge, names)
            for number in stats.keys() & names.keys():
                for name, value in stats[number].items():  # of all members of a bond
                    counter = f"{names[number]}.{name}"
                    counters[counter] = counters.get(counter, 0) + value
        return counters

    def _pmds(self) -> dict[str, int]:
        if self._pmd_command is None:
            known = self._instance.ctl.knows("dpif-netdev/pmd-stats-show")
            self._pmd_command = "dpif-netdev/pmd-stats-show" if known else "dpif-netdev/pmd-perf-show"
        try:
            text = self._instance.ctl.call(self._pmd_command)
        except UnixctlError:  # no datapath yet: nothing was built
            return {}
        return parse_pmd_stats(text) if self._pmd_command.endswith("stats-show") else parse_pmd_perf(text)

    def _coverage(self) -> dict[str, int]:
        """Counters hit so far; and the drop counters that this version has, which without a hit are 0 indeed."""
        if self._drops is None:
            self._drops = tuple(name for name in DROP_COUNTERS if self._exists(name))
        counters = {f"coverage.{name}": 0 for name in self._drops}
        for line in self._instance.ctl.call("coverage/show").splitlines():
            found = _COVERAGE.match(line)
            if found is not None:
                counters[f"coverage.{found[1]}"] = int(found[2])
        return counters

    def _exists(self, counter: str) -> bool:
        try:
            self._instance.ctl.call("coverage/read-counter", counter)
        except UnixctlError:
            return False
        return True

    def _cpu(self) -> dict[str, int]:
        fields = _stat_fields(self._instance.pid)
        ticks = int(fields[11]) + int(fields[12])  # utime + stime, proc(5)
        return {"vswitchd.cpu_ns": ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")}


_MOST_BRIDGES = 16


def _counted_ports(topology: Topology) -> dict[str, list[str]]:
    """Ports that frames come in or go out by, by bridge. Patch ports are left out: a chain has many, and no loss.

    Each bridge takes most of a millisecond. Of many, those with veth pairs alone are left to the kernel's counters.
    """
    patches = {name for patch in topology.patches for name in (patch.port_a, patch.port_b)}
    veths = {name for veth in topology.veths for name in (veth.port_a, veth.port_b)}
    counted: dict[str, list[str]] = defaultdict(list)
    for bridge, port in all_ports(topology):
        if port not in patches:
            counted[bridge].append(port)
    if len(counted) <= _MOST_BRIDGES:
        return counted
    return {bridge: ports for bridge, ports in counted.items() if not veths.issuperset(ports)}


def _since(old: Mapping[str, int], new: Mapping[str, int], prefix: str) -> int:
    return sum(new[name] - old[name] for name in new.keys() & old.keys() if name.startswith(prefix))


def _stat_fields(pid: int) -> list[str]:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise TestbedError(f"ovs-vswitchd (pid {pid}) is gone") from error
    return stat[stat.rindex(")") + 2 :].split()
