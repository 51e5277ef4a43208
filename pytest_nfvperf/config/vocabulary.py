"""The words of the SLA language: what can be selected, and what can be required."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_nfvperf.config.units import (
    BIT_RATE,
    CORES,
    CPU_PER_GIGABIT,
    CYCLES,
    EACH_SECOND,
    FRAME_RATE,
    FRAMES,
    INSTRUCTIONS,
    RATIO,
    SEGMENTS,
    SIZE,
    TIME,
    TIME_NS,
    TIMES,
    VFS,
    Dimension,
)
from pytest_nfvperf.model.measure.profile import PROFILES


@dataclass(frozen=True, slots=True)
class Selector:
    """A label of a subject.

    ``values``: the words it can have; empty for any word. ``number``: whole numbers only. ``foreign``: a third party
    may add words, with a colon in them.
    """

    meaning: str
    values: tuple[str, ...] = ()
    number: bool = False
    foreign: bool = False


SELECTORS = {
    "suite": Selector("folder under suites/"),
    "test": Selector("name of the test function"),
    "topology": Selector("phy2phy, pvp, pvvp or a suite's own"),
    "frame_size": Selector("bytes with FCS, or imix-NAME"),
    "headers": Selector("what is not plain IPv4 and UDP: ipv6, vxlan, vxlan6-ipv6, or a packet's label, e.g. qinq-tcp"),
    "flows": Selector("distinct 5-tuples per direction; 10k and 1M are understood"),
    "datapath": Selector("the DUT's datapath", values=("dpdk", "netdev", "system", "linux-bridge"), foreign=True),
    "direction": Selector("who sends", values=("unidirectional", "bidirectional")),
    "link": Selector("how neighbouring bridges are joined, e.g. patch or veth"),
    "bridges": Selector("number of bridges in the chain", number=True),
    "profile": Selector("the measuring profile", values=tuple(PROFILES)),
    "engine": Selector("the traffic generator, e.g. embedded or trex"),
    "nic": Selector("the lab's NICs: dut.ports[].model, or what the PCI database calls them"),
    "driver": Selector("their driver: the kernel's, e.g. mlx5_core, or DPDK's by vfio, e.g. net_vmxnet3"),
    "firmware": Selector("their firmware; 22.36.* selects all that begin so"),
    "function": Selector("PCI functions of the lab's NICs: physical (pf) or virtual (vf)", values=("pf", "vf")),
    "offload": Selector("flows shall be in the NIC", values=("on", "off")),
    "node_cpus": Selector(
        "of a topology with nodes: whether each has CPUs of its own", values=("own", "short-turns", "shared")
    ),
    "class": Selector("a class of a traffic mix: the rule is about its figures only"),
    "classes": Selector("of a traffic mix, all of them: voice+bulk"),
    "raised": Selector("the class whose load a search raised, while the others stayed fixed"),
    "judged": Selector("the class whose loss decided a search"),
    "time": Selector("virtual where instructions are counted", values=("virtual",)),
}
"""Labels that every run understands. Parameters and markers of tests are selectable beside them."""

TESTBED_LABELS = frozenset(
    {"nic", "driver", "firmware", "function", "offload", "datapath", "engine", "node_cpus", "time"}
)
"""Labels of the testbed. A rule about another testbed does not apply to this one, and is no mistake."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Something measured.

    Attributes:
        dimensions: those that a limit may have.
        at: "required", "optional" or "" when the metric is not taken at a load.
        line_ratio: a limit may be a share of line rate.
    """

    meaning: str
    dimensions: tuple[Dimension, ...]
    example: str
    at: str = ""
    line_ratio: bool = False


def _rate(meaning: str) -> Metric:
    return Metric(meaning, (FRAME_RATE, BIT_RATE), ">= 4 Mpps", line_ratio=True)


def _latency(meaning: str) -> Metric:
    since = "from the scheduled send time (TRex: the actual one)"
    return Metric(f"{meaning} latency {since}", (TIME_NS,), "<= 100 us", at="required")


def _response_time(which: str) -> Metric:
    return Metric(f"{which} time from a request to its response", (TIME_NS,), "<= 100 us")


def _connect_time(which: str) -> Metric:
    return Metric(f"{which} time of a TCP connect, by the client", (TIME_NS,), "<= 100 us")


def _seconds(meaning: str) -> Metric:
    return Metric(meaning, (TIME,), "<= 10 s")


_STEPS = {
    "sent": "the UPDATE's leaving the neighbour",
    "received": "its arrival at the DUT's speaker",
    "routed": "the agent's reading of it from the kernel's table",
    "flow": "the bridge's having taken the flow",
}


def _steps(change: str) -> dict[str, Metric]:
    """Metrics of the steps by which a route's change reaches the datapath, in their order."""
    return {
        f"{change}_{step}_time": _seconds(f"from the {change} of a route to {what}") for step, what in _STEPS.items()
    }


def _slope(metric: str, dimension: Dimension, example: str) -> Metric:
    """``metric_slope``: its limit may also be a share of the baseline."""
    dimensions = replace(RATIO, signed=True), replace(dimension, signed=True)
    return Metric(f"change of {metric} for each one more, over a series of subjects", dimensions, example)


def _change(figure: str, dimension: Dimension, example: str) -> Metric:
    return Metric(f"change of {figure} over a soak, by its trend", (replace(dimension, signed=True),), example)


METRICS = {
    "ndr": _rate("highest load per direction without loss"),
    "pdr": _rate("highest load per direction with at most 0.5 % loss"),
    "throughput": _rate("RFC 2544 throughput per direction"),
    "loss_ratio": Metric("lost / offered", (RATIO,), "<= 0", at="optional"),
    "duplicated_ratio": Metric("further copies of frames received / frames sent", (RATIO,), "<= 0"),
    "misdirected_ratio": Metric("frames that came to a port where they do not belong / frames sent", (RATIO,), "<= 0"),
    "corrupted_ratio": Metric("frames received that are not as they were sent / frames sent", (RATIO,), "<= 0"),
    "reordered_ratio": Metric("came after a later one of their flow / received (RFC 4737)", (RATIO,), "<= 0"),
    "lost_frames": Metric("offered - received, all directions", (FRAMES,), "<= 0", at="optional"),
    "latency_min": _latency("smallest"),
    "latency_p50": _latency("median"),
    "latency_p90": _latency("90th percentile of"),
    "latency_p99": _latency("99th percentile of"),
    "latency_p999": _latency("99.9th percentile of"),
    "latency_max": _latency("largest"),
    "back_to_back_frames": Metric("mean longest burst without loss (RFC 9004)", (FRAMES,), ">= 10000 frames"),
    "corrected_buffer_s": Metric("buffer time by RFC 9004, corrected", (TIME,), ">= 100 us"),
    "cycles_per_packet": Metric("PMD cycles a packet", (CYCLES,), "<= 250 cycles"),
    "instructions_per_packet": Metric(
        "CPU instructions a packet, counted in virtual time: no rate, and of no real machine",
        (INSTRUCTIONS,),
        "<= 10000 instructions",
    ),
    "mpps_per_core": Metric("frames forwarded per PMD core", (FRAME_RATE,), ">= 5 Mpps"),
    "rss_imbalance": Metric(
        "frames of the busiest receive queue over the mean of its port's queues, of the worst port; 100 %: all alike",
        (RATIO,),
        "<= 150 %",
    ),
    "virtual_functions": Metric("VFs that a NIC can have, of the port whose NIC can have fewest", (VFS,), ">= 64 VFs"),
    "offloaded_flows": Metric("share of the datapath's flows that are in the NIC", (RATIO,), ">= 100 %"),
    "offloaded_frames": Metric("share of a trial's frames that no PMD thread received", (RATIO,), ">= 90 %"),
    "flow_counter_error": Metric(
        "how far the flows' counters are from the frames that were sent and received", (RATIO,), "<= 1 %"
    ),
    "pmd_busy": Metric("share of PMD cycles spent on packets", (RATIO,), "<= 90 %"),
    "dut_cpu_seconds": _seconds("CPU time of the DUT over the cost trial"),
    "generator_cpu_seconds": _seconds("CPU time of the generator over the cost trial"),
    "test_process_cpu_seconds": _seconds("CPU time of pytest over the cost trial"),
    "forwarding_rate": _rate("received rate per direction at maximum offered load (RFC 2285 section 3.6.2)"),
    "packet_time": Metric("time a packet at maximum offered load, all directions", (TIME_NS,), "<= 100 ns"),
    "mirror_rate": _rate("copies received from a mirror at maximum offered load"),
    "mirror_completeness": Metric(
        "copies received over copies expected, at the set load; each crossing of the bridge is one",
        (RATIO,),
        ">= 100 %",
    ),
    "mirror_completeness_overloaded": Metric(
        "copies received over copies expected, at maximum offered load", (RATIO,), ">= 30 %"
    ),
    "mirror_dropped": Metric(
        "copies that the mirror's output counted as dropped at maximum offered load", (RATIO,), "<= 10 %"
    ),
    "mirror_unexplained": Metric(
        "copies that were expected at maximum offered load and neither received nor counted as dropped",
        (RATIO,),
        "<= 0.1 %",
    ),
    "tcp_throughput": Metric("TCP payload received", (BIT_RATE,), ">= 1 Gbps"),
    "udp_throughput": Metric("UDP payload received", (BIT_RATE,), ">= 1 Gbps"),
    "sender_cores": Metric("CPUs that the sending side used", (CORES,), "<= 1.2 cores"),
    "receiver_cores": Metric("CPUs that the receiving side used", (CORES,), "<= 1.2 cores"),
    "datapath_cores": Metric(
        "CPUs that the datapath used: its threads, and softirq where it is in the kernel", (CORES,), "<= 1.2 cores"
    ),
    "softirq_cores": Metric("CPUs that the machine spent in softirq", (CORES,), "<= 0.5 cores"),
    "pmd_cores": Metric("CPUs that PMD threads used at a fixed load", (CORES,), "<= 0.5 cores"),
    "load_latency_p50": Metric("median latency at a fixed load", (TIME_NS,), "<= 100 us"),
    "load_latency_p99": Metric("99th percentile of latency at a fixed load", (TIME_NS,), "<= 1 ms"),
    "cpu_per_gigabit": Metric(
        "CPU seconds a gigabit of payload, of sender, receiver, datapath, kernel threads and VNFs",
        (CPU_PER_GIGABIT,),
        "<= 2 cpu-s/Gbit",
    ),
    "context_switches": Metric("how often threads were put on a CPU", (EACH_SECOND,), "<= 100000 times/s"),
    "response_time_p50": _response_time("median"),
    "response_time_p99": _response_time("99th percentile of the"),
    "response_time_p999": _response_time("99.9th percentile of the"),
    "responses": Metric("responses a second", (EACH_SECOND,), ">= 1000 times/s"),
    "connect_rate": Metric(
        "TCP connections that one client opens a second, one after the other", (EACH_SECOND,), ">= 1000 times/s"
    ),
    "connect_time_mean": _connect_time("mean"),
    "connect_time_p50": _connect_time("median"),
    "connect_time_p99": _connect_time("99th percentile of the"),
    "connect_time_p999": _connect_time("99.9th percentile of the"),
    "failed_connects": Metric("TCP connects that were refused or timed out", (TIMES,), "<= 0 times"),
    "reconnect_time": _seconds("longest time without a datagram between two namespaces, around a restart of OVS"),
    "restart_time": _seconds("from the end of ovs-vswitchd to its having taken its configuration again"),
    "retransmits": Metric("TCP segments sent again", (SEGMENTS,), "<= 100 segments"),
    "establishment_time": _seconds("from the start of both BGP speakers to Established, with BFD up"),
    "withdrawal_time": _seconds("from the withdrawal of a route to the last frame that was still forwarded by it"),
    "announcement_time": _seconds("from the announcement of a route to the first frame that was forwarded by it"),
    **_steps("withdrawal"),
    **_steps("announcement"),
    "outage_time": _seconds("longest time without a frame of a direction that had been forwarded"),
    "recovery_time": _seconds("from the end of a failure or overload to what it had ended being there again"),
    "survival_time": Metric("from the begin of an overload to the end of the routing session", (TIME,), ">= 10 s"),
    "prefixes_received_time": _seconds("from the announcement of many prefixes to the DUT's having counted them all"),
    "prefixes_installed_time": _seconds("from the announcement of many prefixes to all being flows"),
    "forwarding_rate_slope": _slope("forwarding_rate", FRAME_RATE, ">= -0.5 %"),
    "packet_time_slope": _slope("packet_time", TIME_NS, "<= 5 ns"),
    "cycles_per_packet_slope": _slope("cycles_per_packet", CYCLES, "<= 5 cycles"),
    "tcp_throughput_slope": _slope("tcp_throughput", BIT_RATE, ">= -5 %"),
    "rate_change": _change("the received rate", RATIO, ">= -0.5 %"),
    "latency_p99_change": _change("the 99th percentile of latency", RATIO, "<= 20 %"),
    "cycles_change": _change("PMD cycles a packet", RATIO, "<= 2 %"),
    "memory_growth": _change("ovs-vswitchd's resident memory", SIZE, "<= 8 MiB"),
    "session_flaps": Metric("routing sessions that went down during a soak", (TIMES,), "<= 0"),
    "sample_gaps": Metric("samples of a soak that are missing, or for no known reason", (TIMES,), "<= 0"),
    "spoiled_ratio": Metric("share of a soak's intervals that the rig disturbed", (RATIO,), "<= 5 %"),
    "sampling_cores": Metric("CPUs that sampling a soak took", (CORES,), "<= 0.02 cores"),
}

GOALS = ("ndr", "pdr", "throughput")
"""Searched loads that another load can be a share of."""

OPERATORS = (">=", "<=", "==", ">", "<")
