"""The metrics: what each is called, means and is counted in, and which direction is better.

SLA words, tables, pages, export, history and comparisons read this. A new metric is an entry here, and whoever
measures it.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, replace
from typing import Any

HIGHER, LOWER = "higher", "lower"
RATES = ("pps", "bps", "line_ratio")


@dataclass(frozen=True, slots=True)
class Metric:
    """Something measured.

    Attributes:
        title: of columns, charts and lists.
        unit: base unit of its figures.
        better: HIGHER, LOWER or None.
        limit: one that makes sense, as an SLA writes it.
        also: other units that a limit may have; "line_ratio": a share of line rate.
        at: "required", "optional" or "" when it is not taken at a load.
        signed: it may be below 0.
        compared: sides of a comparison are compared by its ratio. A metric that says the same as another is not, nor
            one that is whole or not.
        slowed: whoever slows the DUT makes it worse, so that it bounds the true value.
        by_worst: one bad reading decides: whoever missed one copy is not complete.
        virtual: measured in virtual time, and only there.
        default_limit: the most that is allowed where no rule is about it; None: anything.
        companion: the metric that charts of studies show beside its ratio; "": itself.
        column: heading of its column in the tables of searches and studies; "": it has none.
        optional: from 1 on, a narrow table lacks the column, the lowest number first.
    """

    title: str
    meaning: str
    unit: str
    better: str | None
    limit: str
    also: tuple[str, ...] = ()
    at: str = ""
    signed: bool = False
    compared: bool = False
    slowed: bool = False
    by_worst: bool = False
    virtual: bool = False
    default_limit: float | None = None
    companion: str = ""
    column: str = ""
    optional: int = 0

    @property
    def example(self) -> str:
        """``>= 4 Mpps``."""
        return f"{'>=' if self.better == HIGHER else '<='} {self.limit}"


def _rate(title: str, meaning: str, **more: Any) -> Metric:
    return Metric(title, meaning, "pps", HIGHER, "4 Mpps", RATES[1:], compared=True, **more)


def _ratio(title: str, meaning: str, limit: str, better: str = LOWER, **more: Any) -> Metric:
    return Metric(title, meaning, "ratio", better, limit, **more)


def _time_ns(title: str, meaning: str, limit: str = "100 us", **more: Any) -> Metric:
    return Metric(title, meaning, "ns", LOWER, limit, **more)


def _seconds(title: str, meaning: str, better: str = LOWER, **more: Any) -> Metric:
    return Metric(title, meaning, "s", better, "10 s", **more)


def _cores(title: str, meaning: str, limit: str = "1.2 cores", **more: Any) -> Metric:
    return Metric(title, meaning, "cores", LOWER, limit, **more)


def _each_second(title: str, meaning: str, limit: str, better: str = HIGHER, **more: Any) -> Metric:
    return Metric(title, meaning, "times/s", better, limit, **more)


def _slope(of: str, unit: str, better: str, limit: str) -> Metric:
    """Its limit may be a share of the baseline, or in the metric's unit."""
    meaning = f"change of {of} for each one more, over a series of subjects"
    return Metric(f"{of}, for each one more", meaning, "ratio", better, limit, (unit,), signed=True)


def _change(title: str, unit: str, better: str, limit: str, **more: Any) -> Metric:
    return Metric(title, f"change of {title} over a soak, by its trend", unit, better, limit, signed=True, **more)


_PERCENTILES = {"p50": "median", "p90": "90th percentile", "p99": "99th percentile", "p999": "99.9th percentile"}
_LATENCIES = {"min": "smallest", **_PERCENTILES, "max": "largest"}
_WAITED = {name: which for name, which in _PERCENTILES.items() if name != "p90"}
_SCHEDULED = "from the scheduled send time (TRex: the actual one)"
_RESPONSE, _CONNECT = "from a request to its response", "of a TCP connect, as the client sees it"
_RFC9004, _MOST = "mean longest burst without loss (RFC 9004)", "at maximum offered load"
_STEPS = {
    "sent": "the UPDATE's leaving the neighbour",
    "received": "its arrival at the DUT's speaker",
    "routed": "the agent's reading of it from the kernel's table",
    "flow": "the bridge's having taken the flow",
}
"""The steps by which a route's change reaches the datapath, in their order."""

_OF_SEARCHES = {
    "ndr": _rate("NDR", "highest load per direction without loss", slowed=True),
    "pdr": _rate("PDR", "highest load per direction with at most 0.5 % loss", slowed=True),
    "throughput": _rate("throughput", "RFC 2544 throughput per direction", slowed=True),
    "new_flow_rate": Metric(
        *("new flows", "highest load per direction, without loss, of frames that each begin a flow", "pps", HIGHER),
        "10 kpps",
        compared=True,
        slowed=True,
    ),
    "connection_rate": Metric(
        *("connections", "connections opened a second of which no more fail than the goal allows", "conn/s", HIGHER),
        "10 kconn/s",
        compared=True,
        slowed=True,
    ),
    "failed_connections": Metric(
        *("failed connections", "opened - completed", "connections", LOWER, "0"),
        at="optional",
        slowed=True,
    ),
    "concurrent_connections": Metric(
        *("open at once", "connections open at once of which no more fail than the goal allows", "connections", HIGHER),
        "100000 connections",
        compared=True,
        slowed=True,
    ),
    "memory_per_connection": Metric(
        *("memory a connection", "by which ovs-vswitchd grew, over connections held", "bytes", LOWER, "600 bytes"),
        compared=True,
    ),
    "loss_ratio": _ratio("loss", "lost / offered", "0", at="optional", slowed=True),
    "duplicated_ratio": _ratio("duplicated", "further copies of frames received / frames sent", "0", default_limit=0.0),
    "misdirected_ratio": _ratio(
        "misdirected", "frames that came to a wrong port / frames sent", "0", default_limit=0.0
    ),
    "corrupted_ratio": _ratio("corrupted", "frames received not as they were sent / sent", "0", default_limit=0.0),
    "reordered_ratio": _ratio("reordered", "received after later ones / received (RFC 4737)", "0", default_limit=1.0),
    "lost_frames": Metric("lost frames", "offered - received", "frames", LOWER, "0", at="optional", slowed=True),
    **{
        f"latency_{name}": _time_ns(f"latency, {which}", _SCHEDULED, at="required", slowed=True)
        for name, which in _LATENCIES.items()
    },
    "back_to_back_frames": Metric("mean burst", _RFC9004, "frames", HIGHER, "10000 frames", slowed=True),
    "corrected_buffer_s": Metric("buffer", "buffer time by RFC 9004, corrected", "s", HIGHER, "100 us"),
    "cycles_per_packet": Metric(
        *("PMD cycles per packet", "PMD cycles a packet", "cycles", LOWER, "250 cycles"),
        compared=True,
        slowed=True,
        column="cycles/\npacket",
        optional=3,
    ),
    "mpps_per_core": Metric("rate per core", "frames forwarded per PMD core", "pps", HIGHER, "5 Mpps", slowed=True),
    "rate_error": Metric(
        "rate error", "passed by a limiter / its token bucket, less 1", "ratio", None, "1 %", signed=True
    ),
    "burst_accepted": Metric("burst accepted", "from a full bucket / its burst", "ratio", None, "101 %"),
    "rss_imbalance": _ratio("imbalance of queues", "frames of a port's busiest receive queue over their mean", "150 %"),
    "virtual_functions": Metric("VFs", "VFs of the port whose NIC can have fewest", "VFs", HIGHER, "64 VFs"),
    "offloaded_flows": _ratio("flows in the NIC", "share of the datapath's flows that are in the NIC", "100 %", HIGHER),
    "offloaded_frames": _ratio("frames in the NIC", "share of frames that no PMD thread received", "90 %", HIGHER),
    "flow_counter_error": _ratio("error of flow counters", "how far they are from frames sent and received", "1 %"),
    "pmd_busy": _ratio("PMD busy", "share of PMD cycles spent on packets", "90 %"),
    "dut_cpu_seconds": _seconds("DUT CPU", "CPU time of the DUT over the cost trial"),
    "generator_cpu_seconds": _seconds("generator CPU", "CPU time of the generator over the cost trial"),
    "test_process_cpu_seconds": _seconds("test process CPU", "CPU time of pytest over the cost trial"),
    "forwarding_rate": _rate(
        "forwarding rate, per direction", f"received {_MOST} (RFC 2285)", slowed=True, companion="cycles_per_packet"
    ),
    "packet_time": _time_ns("time per packet", "its inverse, over all directions", "100 ns", slowed=True),
}
"""Metrics that a search may have, and of its trials."""

_OF_OTHERS = {
    "instructions_per_packet": Metric(
        "instructions per packet",
        "CPU instructions a packet, counted in virtual time: no rate, and of no real machine",
        *("instructions", LOWER, "10000 instructions"),
        compared=True,
        virtual=True,
    ),
    "mirror_rate": _rate("copies on the mirror", f"copies received {_MOST}", column="copies", optional=1),
    "mirror_completeness": _ratio(
        "mirror complete at the set load",
        "copies received over copies expected, at the set load; each crossing of the bridge is one",
        *("100 %", HIGHER),
        by_worst=True,
        column="mirror\ncomplete",
    ),
    "mirror_completeness_overloaded": _ratio(f"mirror complete {_MOST}", "the same at that load", "30 %", HIGHER),
    "mirror_dropped": _ratio(f"copies counted as dropped {_MOST}", "by the mirror's output, of all expected", "10 %"),
    "mirror_unexplained": _ratio(f"copies unexplained {_MOST}", "neither received nor counted as dropped", "0.1 %"),
    "tcp_throughput": Metric("TCP goodput", "TCP payload received", "bps", HIGHER, "1 Gbps", compared=True),
    "udp_throughput": Metric("UDP goodput", "UDP payload received", "bps", HIGHER, "1 Gbps"),
    "sender_cores": _cores("CPU of the sender", "CPUs that the sending side used", compared=True),
    "receiver_cores": _cores("CPU of the receiver", "CPUs that the receiving side used", compared=True),
    "datapath_cores": _cores("CPU of the datapath", "CPUs of its threads, and a kernel's softirq", compared=True),
    "softirq_cores": _cores("CPU in softirq", "CPUs that the machine spent in softirq", "0.5 cores"),
    "pmd_cores": _cores("CPU of PMD threads", "CPUs that PMD threads used at a fixed load", "0.5 cores", compared=True),
    "load_latency_p50": _time_ns("latency at the load, median", "median latency at a fixed load", compared=True),
    "load_latency_p99": _time_ns(
        "latency at the load, 99th percentile", "99th percentile of latency at a fixed load", "1 ms", compared=True
    ),
    "cpu_per_gigabit": Metric(
        "CPU seconds per gigabit",
        "CPU seconds a gigabit of payload, of sender, receiver, datapath, kernel threads and VNFs",
        *("cpu-s/Gbit", LOWER, "2 cpu-s/Gbit"),
        compared=True,
    ),
    "context_switches": _each_second("context switches a second", "threads put on a CPU", "100000 times/s", LOWER),
    **{
        f"response_time_{name}": _time_ns(f"response time, {which}", _RESPONSE, compared=name != "p999")
        for name, which in _WAITED.items()
    },
    "responses": _each_second("responses a second", "responses a second", "1000 times/s"),
    "connect_rate": _each_second("TCP connects a second", "by one client, one by one", "1000 times/s", compared=True),
    **{
        f"connect_time_{name}": _time_ns(f"time to connect, {which}", _CONNECT, compared=name in {"mean", "p99"})
        for name, which in {"mean": "mean", **_WAITED}.items()
    },
    "failed_connects": Metric("failed connects", "connects refused or timed out", "times", LOWER, "0 times"),
    "reconnect_time": _seconds(
        "nothing arrived around a restart", "longest time without a datagram around a restart of OVS", compared=True
    ),
    "restart_time": _seconds("restart of OVS", "from the end of ovs-vswitchd to its being configured again"),
    "retransmits": Metric("retransmits", "TCP segments sent again", "segments", LOWER, "100 segments"),
    "establishment_time": _seconds("establishment", "from the start of both BGP speakers to Established, with BFD up"),
    "withdrawal_time": _seconds("withdrawal", "from a route's withdrawal to the last frame forwarded by it"),
    "announcement_time": _seconds("announcement", "from a route's announcement to the first frame forwarded by it"),
    **{
        f"{change}_{step}_time": _seconds(f"{change}, {step}", f"from the {change} of a route to {what}")
        for change in ("withdrawal", "announcement")
        for step, what in _STEPS.items()
    },
    "outage": _seconds(
        "blocked", "by an event, in the direction that it blocks longest; median of repeats (RFC 6201)", compared=True
    ),
    "outage_longest": _seconds("blocked at worst", "the same, of the worst repeat"),
    "outage_frames": Metric("lost by the event", "offered - received", "frames", LOWER, "0", compared=True),
    "recovery": _seconds(
        "recovered after",
        "from an event to the end of the last gap, or from the end of a flood until all is as before",
        compared=True,
    ),
    "outage_time": _seconds("outage", "longest time without a frame of a direction that had been forwarded"),
    "recovery_time": _seconds("recovery", "from the end of a failure or overload to all being there again"),
    "megaflow_recovery": _seconds("megaflows gone", "from the end of a flood until megaflows are as few as before"),
    "survival_time": _seconds("survival", "from the begin of an overload to the end of the routing session", HIGHER),
    "prefixes_received_time": _seconds("prefixes received", "from the announcement of many to the DUT's count of all"),
    "prefixes_installed_time": _seconds("prefixes installed", "from the announcement of many to all being flows"),
    "forwarding_rate_slope": _slope("forwarding rate", "pps", HIGHER, "-0.5 %"),
    "packet_time_slope": _slope("time per packet", "ns", LOWER, "5 ns"),
    "cycles_per_packet_slope": _slope("PMD cycles per packet", "cycles", LOWER, "5 cycles"),
    "tcp_throughput_slope": _slope("TCP goodput", "bps", HIGHER, "-5 %"),
    "rate_change": _change("received rate", "ratio", HIGHER, "-0.5 %"),
    "latency_p99_change": _change("99th percentile of latency", "ratio", LOWER, "20 %", slowed=True),
    "cycles_change": _change("PMD cycles a packet", "ratio", LOWER, "2 %"),
    "memory_growth": _change("memory of ovs-vswitchd", "bytes", LOWER, "8 MiB"),
    "session_flaps": Metric("session flaps", "routing sessions that went down", "times", LOWER, "0"),
    "sample_gaps": Metric("gaps in the samples", "samples of a soak that are missing", "times", LOWER, "0"),
    "disturbed_ratio": _ratio("disturbed intervals", "share of a soak's intervals that the rig disturbed", "5 %"),
    "sampling_cores": _cores("sampling took", "CPUs that sampling a soak took", "0.02 cores"),
}
"""Metrics of streams, mirrors, routing, soaks and comparisons, which no search has."""

METRICS = {**_OF_SEARCHES, **_OF_OTHERS}

RENAMED = {"spoiled_ratio": "disturbed_ratio"}
"""Metrics that SLAs and histories of earlier versions name."""

GOALS = ("ndr", "pdr", "throughput", "connection_rate")
"""Searched loads that another load can be a share of."""

_OF_A_SUITE = Metric("", "a metric of a suite's own", "", None, "0")


def metric_of(name: str) -> Metric:
    """The entry of a metric; of a suite's own metric nothing but the name is known."""
    return METRICS.get(name) or replace(_OF_A_SUITE, title=name)


def units_of(*names: str) -> dict[str, str]:
    """The base unit of each metric, for the readings of a study; ``mirror_*`` is all that begin so."""
    return {each: METRICS[each].unit for name in names for each in fnmatch.filter(METRICS, name)}


def percentile_of(name: str) -> float | None:
    """99.9 of ``latency_p999``; None of metrics that are no percentile."""
    found = re.search(r"_p(\d\d)(\d*)$", name)
    return float(f"{found[1]}.{found[2]}") if found else None


def of_searches(name: str) -> bool:
    return name not in _OF_OTHERS
