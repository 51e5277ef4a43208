"""Counts of a UDP trial: what was sent by iperf3's report, what arrived by the kernel's counters.

iperf3's receiver stops reading at the moment the sender is done: what then still waits in the socket it
neither counts as received nor as lost (3.12: 8 to 17 of 2000 datagrams), and what its socket buffer could not
hold it takes for lost. The kernel counts each packet that it delivers to a protocol in the namespace (SNMP's
ipInDelivers, RFC 4293): that is where the DUT's responsibility ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_nfvperf.adapters.generators.iperf3.end_counters import EndState
from pytest_nfvperf.adapters.generators.iperf3.report_json import Report
from pytest_nfvperf.adapters.generators.iperf3.session import Ended
from pytest_nfvperf.model.traffic.trial import Direction, DirectionCounts, InvalidReason, Reason, TrialSpec

_LATE_RATIO = 0.005
_LATE_NS = 3_000_000
"""iperf3 paces by a timer of 1 ms (``--pacing-timer``): so exactly does it know its own end."""


@dataclass(frozen=True, slots=True)
class Change:
    """One namespace's counters over a trial."""

    before: EndState
    after: EndState

    def of(self, name: str) -> int:
        """By how much a protocol's counter rose; KeyError where the kernel does not have it."""
        return self.after.protocols[name] - self.before.protocols[name]

    def of_interface(self, interface: str, name: str) -> int:
        """By how much an interface's counter rose; 0 where it has none, since then nothing was counted against us."""
        old, new = (state.interfaces[interface].counters.get(name, 0) for state in (self.before, self.after))
        return new - old

    @property
    def datagrams_in(self) -> int:
        """UDP datagrams delivered to the namespace, whether or not anybody read them."""
        return self.of("Ip.InDelivers") - self.of("Tcp.InSegs") - self.of("Icmp.InMsgs")

    @property
    def datagrams_out(self) -> int:
        """UDP datagrams that the namespace's sockets sent."""
        return self.of("Udp.OutDatagrams")


def packets(report: Report, *, sender: bool) -> int:
    """Datagrams that an end sent, or read, over the whole run."""
    return sum(part.packets or 0 for key in report.keys(sender=sender) for part in report.streams[key])


def arrived(sent: int, sender: Change, receiver: Change) -> int:
    """Frames that came through. The datagrams by which iperf3 opens its streams are sent and arrive with them."""
    return sent - (sender.datagrams_out - receiver.datagrams_in)


def direction_counts(
    spec: TrialSpec, direction: Direction, client: Report, sender: Change, receiver: Change, interface: str
) -> DirectionCounts:
    """The counts of one direction; ``interface`` is the receiving one.

    Since 3.16 the threads of iperf3 send some frames more than they were told to (seen with 3.18: 0.01-0.15 %);
    these were then intended, too.
    """
    sent = packets(client, sender=True)
    received = arrived(sent, sender, receiver)
    due = frames_of(spec)
    size = round(spec.traffic.mean_frame_size)
    return DirectionCounts(
        direction=direction,
        intended=max(due, sent),
        sent=sent,
        refused=0,
        skipped=max(0, due - sent),
        received=received,
        duplicated=0,  # or the trial is invalid: see sequence_reasons
        out_of_order=0,
        foreign=receiver.of("Ip.InUnknownProtos") + receiver.of_interface(interface, "rx_otherhost_dropped"),
        corrupted=receiver.of("Udp.InCsumErrors"),
        sent_bytes=sent * size,
        received_bytes=received * size,
        elapsed_ns=round(client.elapsed_s * 1e9),
    )


def frames_of(spec: TrialSpec) -> int:
    """Frames due in each direction."""
    return int(round(spec.load_fps * spec.duration_s, 6))


def load_reasons(spec: TrialSpec, counts: DirectionCounts) -> Iterator[InvalidReason]:
    """A load that was not what was asked for: iperf3 sends later what it could not send in time."""
    over_ns = counts.elapsed_ns - spec.duration_s * 1e9
    if over_ns > max(_LATE_NS, _LATE_RATIO * spec.duration_s * 1e9):
        detail = f"{counts.direction}: {counts.sent} frames took {counts.elapsed_ns / 1e9:.4f} s"
        yield InvalidReason(Reason.FELL_BEHIND, f"{detail}, not {spec.duration_s:g} s: they were due faster than sent")
    if counts.skipped:
        yield InvalidReason(Reason.UNSENT, f"{counts.direction}: {counts.sent} of {counts.intended} frames were sent")


def sequence_reasons(counts: DirectionCounts, server: Ended) -> Iterator[InvalidReason]:
    """iperf3 calls a datagram out of order that came late as well as one that came twice."""
    if counts.received > counts.sent:
        detail = f"{counts.direction}: sent {counts.sent}, received {counts.received}"
        yield InvalidReason(Reason.MORE_RECEIVED_THAN_SENT, detail)
    if counts.corrupted:
        detail = f"{counts.direction}: {counts.corrupted} datagrams with a wrong checksum"
        yield InvalidReason(Reason.CORRUPT_FRAMES, detail)
    odd = server.report.out_of_order if server.report is not None else 0
    if odd:
        detail = f"{counts.direction}: {odd} datagrams out of order or duplicated: iperf3 cannot tell which"
        yield InvalidReason(Reason.UNCLEAR_SEQUENCE, f"{detail}, and so not how many were lost")


def read_changes(before: Mapping[str, EndState], after: Mapping[str, EndState]) -> dict[str, Change]:
    """Changes by port."""
    return {name: Change(before[name], after[name]) for name in before}
