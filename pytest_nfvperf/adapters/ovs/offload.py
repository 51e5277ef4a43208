"""Which flows of a datapath are in hardware, and what OVS says of the others.

``other_config:hw-offload`` (ovs-vswitchd.conf.db(5)) only allows OVS to try it. If a NIC, a driver or an action cannot,
the flow silently stays in software. So we ask for the flows: ``dpctl/dump-flows`` (ovs-dpctl(8)). OVS logs most reasons
at level DBG only, so a private OVS logs that level for the modules that offload.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pytest_nfvperf.adapters.ovs.ovsdb import RefusedError, Unixctl
from pytest_nfvperf.adapters.ovs.private_ovs import RunningOvs
from pytest_nfvperf.model.measure.hw_offload import DatapathFlow, FlowPlace, OffloadShare, offload_share
from pytest_nfvperf.model.sla.rules import flow_fields

MOST_COUNTED = 1000
"""Flows whose counters are read around each trial; a dump of so many takes some 10 ms."""

_IDLE_S = 5.0
"""OVS removes a flow that was idle for 10 s (max-idle): one that was idle for so long had no part in a trial."""

_ZERO = r"/(?:0x)?(?:0|0\.0\.0\.0|::|(?:00:){5}00)"
_WILDCARDED = (
    re.compile(rf"\b\w+\([^(),]*?{_ZERO}\),?"),  # ct_state(0/0)
    re.compile(rf"\b\w+=[^(),]*?{_ZERO}(?=[,)]),?"),  # src=198.18.0.1/0.0.0.0
    re.compile(r",(?=\))"),
    re.compile(r"\b\w+\(\),?"),
)
"""What ``-m`` adds: fields, and parts of fields, that the flow does not look at."""

_PACKETS = re.compile(r", packets:(\d+)")
_USED = re.compile(r", used:([0-9.]+)s")
_LAYER = re.compile(r", (?:offloaded:\w+|dp:\w+)(?=,)")
_EXTRA = re.compile(r", dp-extra-info:.*$")
_UFID = re.compile(r"^ufid:[0-9a-f-]+, ")
_LINE = re.compile(r"^(?P<time>\S+)\|\d+\|(?P<module>\w+)(?:\([^)]*\))?\|(?P<level>[A-Z]+)\|(?P<text>.*)$")
_REFUSED = re.compile(
    r"rte_flow creation failed|cannot be offloaded|are not supported|failed to offload|[Uu]nsupported|"
    r"No suitable flow API|Cannot find netdev"  # of ports that offload nothing, such as vhost-user and taps
)
_PATTERN = re.compile(r"(?:Failed flow: *|\[\d+ \(.*?\)\]: ).*?flow create \d+ (?P<pattern>.*)")
_VALUE = re.compile(r" is (?P<value>(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|\d+\.\d+\.\d+\.\d+)\b")
_ADDRESS = re.compile(r"(?<==)(?:(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|\d+\.\d+\.\d+\.\d+)(?=[,)])")
_INTERFACE = re.compile(r"^(?P<name>[^\s:/]+)(?:/[^\s:]+)?: ")
_NO_NETDEV = re.compile(r"^Cannot find netdev for odp port \d+$")
"""Why a flow is only marked, as one that goes to a tap; the next line is about that flow, and begins with its port."""

_FLOWS_NOW = re.compile(r"\bflows: (\d+)")


def dump_flows(ctl: Unixctl) -> list[str]:
    """The datapath's flows now, as OVS writes them with all fields. A flow appears with its first frame."""
    try:
        text = ctl.call("dpctl/dump-flows", "-m", "--names")
    except RefusedError:  # there is no datapath, or several unnamed ones: no flows of ours
        return []
    return [line for line in text.splitlines() if "actions:" in line]


class FlowCounter:
    """Packets that the datapath's flows counted, although flows come and go. ``read()`` before and after a trial."""

    def __init__(self, ctl: Unixctl) -> None:
        self._ctl = ctl
        self._known: dict[str, tuple[int, bool]] = {}  # by ufid: packets, and whether the flow is in use
        self._packets = self._removed = 0

    def read(self) -> dict[str, int]:
        """``flows.packets`` since the first call, and ``flows.removed``: flows in use that are gone.

        Empty if there are too many flows to read quickly. What a removed flow counted last is not known.
        """
        try:
            number = _FLOWS_NOW.search(self._ctl.call("dpctl/show"))
        except RefusedError:
            number = None
        if number is None or int(number[1]) > MOST_COUNTED:
            self._known.clear()
            return {}
        now: dict[str, tuple[int, bool]] = {}
        for line in dump_flows(self._ctl):
            ufid, packets, used = _UFID.match(line), _PACKETS.search(line), _USED.search(line)
            if ufid is not None and packets is not None:
                now[ufid[0]] = int(packets[1]), used is not None and float(used[1]) < _IDLE_S
        for name, (count, _) in now.items():
            self._packets += max(0, count - self._known.get(name, (0, False))[0])
        self._removed += sum(in_use for name, (_, in_use) in self._known.items() if name not in now)
        self._known = now
        return {"flows.packets": self._packets, "flows.removed": self._removed}


def parse_flow(line: str) -> DatapathFlow:
    packets = _PACKETS.search(line)
    text = _EXTRA.sub("", _LAYER.sub("", _UFID.sub("", line)))
    fields, comma, rest = text.partition(", packets:")
    for wildcarded in _WILDCARDED:
        fields = wildcarded.sub("", fields)
    place = FlowPlace.SOFTWARE
    if ", offloaded:partial" in line:
        place = FlowPlace.PARTIAL
    elif ", offloaded:yes" in line:
        place = FlowPlace.HARDWARE
    elif ", dp:tc" in line:
        place = FlowPlace.TC
    return DatapathFlow(fields.rstrip(",") + comma + rest, place, int(packets[1]) if packets else None)


def log_time() -> str:
    """The time now as OVS writes it in its log: UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def reasons_in(log: str, since: str = "") -> Iterator[str]:
    """Yield OVS's log lines about flows that it could not offload, each once, without time and number.

    ``since``: a ``log_time()``. Earlier lines are about flows that are gone, which can have had the same addresses.
    OVS up to 3.4 writes the cause in one line and the flow in the next: they are joined.
    """
    seen: set[str] = set()
    cause = no_netdev = ""
    for line in log.splitlines():
        match = _LINE.match(line)
        if (
            match is None
            or match["time"] < since
            or ("offload" not in match["module"] and "offload" not in match["text"])
        ):
            continue
        text = " ".join(match["text"].split())
        if _NO_NETDEV.match(text):
            no_netdev = text
            continue
        port = _INTERFACE.match(text)
        if no_netdev and port is not None:
            text, no_netdev = f"{port['name']}: {no_netdev}", ""
        if "Failed flow:" in text and cause:
            text, cause = f"{cause} {text.partition(': ')[2]}", ""
        elif "creation failed:" in text:
            cause = text
            continue
        if _REFUSED.search(text) and text not in seen:
            seen.add(text)
            yield text
    if cause and cause not in seen:
        yield cause


def explain(flows: Iterable[DatapathFlow], reasons: Sequence[str]) -> Iterator[DatapathFlow]:
    """Give each flow outside of hardware the log lines about its port whose addresses it has."""
    by_port: Mapping[str, list[str]] = defaultdict(list)
    for reason in reasons:
        named = _INTERFACE.match(reason)
        by_port[named["name"] if named else ""].append(reason)
    for flow in flows:
        if flow.place is FlowPlace.HARDWARE:
            yield flow
            continue
        ports = flow_fields(flow.text).get("in_port", set())
        about = [reason for port in ports for reason in by_port.get(port, ()) if _is_about(reason, flow)]
        yield replace(flow, reasons=tuple(about[-2:]))


def _is_about(reason: str, flow: DatapathFlow) -> bool:
    """True if a log line names the same addresses as a flow, or none because it does not show what it matches."""
    pattern = _PATTERN.search(reason)
    if pattern is None:
        return True
    addresses = set(_ADDRESS.findall(flow.text.partition(", packets:")[0]))
    return {found["value"] for found in _VALUE.finditer(pattern["pattern"])} == addresses


def read_share(instance: RunningOvs, since: str = "") -> OffloadShare:
    """Where the datapath's flows are now; TestbedError if OVS does not answer. ``since``: of the reasons."""
    reasons = list(reasons_in(instance.log_text(), since))
    flows = list(explain(map(parse_flow, dump_flows(instance.ctl)), reasons))
    kernel = instance.options.datapath_type == "system"
    policy = instance.db.root.other_config.get("tc-policy", "none") if kernel else ""
    return offload_share(flows, reasons, policy)


def not_offloaded(instance: RunningOvs, since: str = "") -> str | None:
    """Why no flow is in hardware, flow by flow; None where flows are. ``since``: of OVS's reasons."""
    if instance.db.root.other_config.get("hw-offload") != "true":
        return "other_config:hw-offload is not true"
    share = read_share(instance, since)
    return None if share.full else f"hw-offload is on, but {share.none_in_hardware()}"
