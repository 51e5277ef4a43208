"""Frames by packet sockets (packet(7)), many by one system call (sendmmsg(2)): the generator of virtual time.

In virtual time there are no rates. A trial's load and duration only say how many frames it has. It sends bursts of as
many as a packet socket holds, up to MOST_IN_A_BURST. Each burst begins when the previous one was forwarded, so frames
reach the DUT in the same way in every run.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nfvperf.adapters.generators.checks import (
    AttachingGenerator,
    check_directions,
    check_spec,
    refuse_conversations,
)
from pytest_nfvperf.adapters.generators.frames import frames_of, program_of
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.errors import ConfigError, GeneratorError, UnavailableError
from pytest_nfvperf.model.testbed.testbed import GeneratorInfo
from pytest_nfvperf.model.topology.ports import PortRole
from pytest_nfvperf.model.traffic.frame_program import frames_of_program
from pytest_nfvperf.model.traffic.mix import AnyTraffic, ClassStream, classes_of
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES, Traffic
from pytest_nfvperf.model.traffic.trial import Direction, DirectionCounts, RigHealth, TrialSpec, counts_by_class
from pytest_nfvperf.ports.generator import Burst, GeneratorPort

_PRIORITY = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
ENGINE = "packet-socket"
MOST_IN_A_BURST = 32
"""What OVS reads at once from such a port (NETDEV_MAX_BURST). With 128 some readings of the kernel's datapath were 12 %
below the others, as if it had left a part to ksoftirqd, which is not counted."""
_SOCKET_BYTES, _FRAME_OVERHEAD_BYTES = 140_000, 800
"""What fits into OVS's socket in any case (net.core.rmem_default: 212,992), and what the kernel adds to each frame."""
MOST_FLOWS = 256
"""A burst over rings has a frame of each flow, and must fit into a ring."""
_DEVICE = "net_af_packet,iface="
_LEARN_FRAMES = 4
_FORWARDED_S, _LOOK_S = 0.005, 0.002
"""Virtual time before the first look at a burst, and between looks. An earlier look would interrupt the thread that
forwards and cost it instructions; the work itself takes 1 to 3 ms."""
_INTERFACES = Path("/sys/class/net")


class _Vector(ctypes.Structure):  # struct iovec
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):  # struct msghdr
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vectors_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):  # struct mmsghdr
    _fields_ = (("header", _Header), ("sent_bytes", ctypes.c_uint))


def _send_at_once(frames: Sequence[bytes], link: socket.socket) -> tuple[int, int]:
    """Send frames, without FCS, by one sendmmsg(2); returns how many the socket took, and how long, in ns.

    GeneratorError if the kernel took none.
    """
    memory = [ctypes.create_string_buffer(frame, len(frame)) for frame in frames]
    vectors = [_Vector(ctypes.addressof(each), len(each)) for each in memory]
    messages = (_Message * len(frames))()
    for message, vector in zip(messages, vectors, strict=True):
        message.header.vectors = ctypes.pointer(vector)
        message.header.vectors_length = 1
    # Nothing else may run until the frames are sent, so that their reader always finds all of them.
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except PermissionError as error:
        raise GeneratorError("cannot send without being interrupted (SCHED_FIFO): this needs root") from error
    try:
        began = time.monotonic_ns()
        sent: int = _LIBC.sendmmsg(link.fileno(), messages, len(messages), 0)
        took = time.monotonic_ns() - began
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if sent < 0:
        raise GeneratorError(f"the kernel takes no frame: {os.strerror(ctypes.get_errno())}")
    return sent, took


def check_countable(sent: AnyTraffic) -> None:
    """Raise UnavailableError for a packet, ConfigError for flows, of more frames than are sent in virtual time."""
    refuse_conversations(sent, "the engine of virtual time")
    for traffic in (each.traffic for each in classes_of(sent)):
        if frames_until_repeat(traffic) > MOST_FLOWS:
            raise UnavailableError(
                f"in virtual time at most {MOST_FLOWS} different frames are sent, not {frames_until_repeat(traffic):,}"
            )
    if sent.combinations > MOST_FLOWS:
        raise ConfigError(f"in virtual time at most {MOST_FLOWS} flows are sent, not {sent.combinations}")


def frames_until_repeat(traffic: Traffic) -> int:
    """Of a packet or a capture, until fields and templates both start over; of the short form 1."""
    source = traffic.frame_source
    if source is None:
        return 1
    return math.lcm(source.combinations, max(1, sum(frames for _, frames in source.frame_sizes)))


class PacketSocketGenerator(AttachingGenerator):
    """Frames by packet sockets, as a Generator.

    A port's device is ``net_af_packet,iface=NAME``, a kernel interface of the namespace that we run in.
    ``instruction_ns``: virtual time of one instruction.
    """

    def __init__(self, instruction_ns: int) -> None:
        super().__init__()
        self.instruction_ns = instruction_ns

    def info(self) -> GeneratorInfo:
        detail = f"frames by packet sockets, in bursts; {self.instruction_ns} ns of virtual time an instruction"
        return GeneratorInfo(ENGINE, platform.release(), detail, (0,))

    def attach(self, ports: Sequence[GeneratorPort]) -> None:
        """Take the ports. ConfigError for one that is no endpoint, or whose interface does not exist."""
        for port in ports:
            if port.role is not PortRole.ENDPOINT or port.members:
                role = "bond" if port.members else port.role
                raise ConfigError(f"port {port.name!r} is a {role}: in virtual time there are endpoints only")
            if not (_INTERFACES / _interface(port)).exists():
                raise ConfigError(f"port {port.name!r}: there is no interface {_interface(port)!r} here")
        super().attach(ports)

    def wait_links_up(self, deadline_s: float) -> None:
        self.check_open()

        def down() -> str:
            return ", ".join(name for name, port in self._ports.items() if not _has_carrier(_interface(port)))

        wait_until(lambda: not down(), "all links", deadline_s, last_seen=lambda: f"down: {down()}")

    def learn(self, traffic: AnyTraffic, directions: Sequence[Direction]) -> None:
        """Send a few frames in each direction: bridges learn the MACs, and flows are set up."""
        self.check_open()
        check_directions(self._ports, directions)
        for each in classes_of(traffic):
            one_flow = replace(each.traffic, flows=1)
            spec = TrialSpec(one_flow, _LEARN_FRAMES, 1.0, tuple(directions), purpose="learn")
            for _ in range(2):  # until all have sent once, frames are flooded
                self.run_trial(spec)

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        return self.run_counted(spec, None)[0]

    def run_counted(
        self, spec: TrialSpec, forwarding_ns: Callable[[], int] | None
    ) -> tuple[TrialResult, tuple[Burst, ...]]:
        """Run a trial; also returns the cost of each burst.

        ConfigError if it cannot make such frames, or a port is not attached. GeneratorError if the kernel took none.
        """
        self.check_open()
        check_spec(self._ports, spec)
        check_countable(spec.traffic)
        sent = spec.streams(frames_of(spec))
        at_once = burst_of(spec.traffic.largest_frame_size)
        with ExitStack() as stack:
            senders = [_Sender.of(stream, spec.directions[stream.direction], self._ports, stack) for stream in sent]
            bursts = [
                sender.burst(min(at_once, stream.frames - done), forwarding_ns, spec.residual_s)
                for done in range(0, max(stream.frames for stream in sent), at_once)
                for sender, stream in zip(senders, sent, strict=True)
                if done < stream.frames
            ]
            each = [sender.counts(stream.frames) for sender, stream in zip(senders, sent, strict=True)]
            counts, classes = counts_by_class(sent, each)
        invalid = tuple(
            InvalidReason(
                Reason.FOREIGN_FRAMES, f"{count.direction}: {count.foreign} frames more arrived than were sent"
            )
            for count in counts
            if count.foreign
        )
        return TrialResult(spec, counts, RigHealth(), invalid, classes=classes), tuple(bursts)


@dataclass(slots=True)
class _Sender:
    """One class of a direction of a running trial.

    Attributes:
        before: what the receiving interface had counted when the trial began.
        shared: other classes come by that interface, too. Then what it counts during a burst is the burst's class's.
        received: frames of this class so far, if it is shared.
    """

    direction: Direction
    frames: tuple[bytes, ...]
    link: socket.socket
    receiver: str
    before: int
    shared: bool
    received: int = 0
    sent: int = 0
    busy_ns: int = 0

    @staticmethod
    def of(stream: ClassStream, direction: Direction, ports: Mapping[str, GeneratorPort], stack: ExitStack) -> _Sender:
        program = program_of(stream.sent.traffic, direction, ports, reverse=stream.reverse)
        # Until sizes and flows both start over; where other engines sign them, they have zeros.
        frames = tuple(frames_of_program(program))
        link = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        link.bind((_interface(ports[direction.tx]), 0))
        receiver = _interface(ports[direction.rx])
        return _Sender(direction, frames, link, receiver, _received(receiver), bool(stream.sent.name))

    def burst(self, frames: int, forwarding_ns: Callable[[], int] | None, residual_s: float) -> Burst:
        """Send a number of frames and wait until they arrived, for at most the residual wait; returns their cost."""
        burst = [self.frames[at % len(self.frames)] for at in range(self.sent, self.sent + frames)]
        if self.shared:
            self.before = _received(self.receiver) - self.received
        ran = forwarding_ns() if forwarding_ns is not None else 0
        sent, took_ns = _send_at_once(burst, self.link)
        self.sent += sent
        self.busy_ns += took_ns
        self._settle(residual_s, forwarding_ns)
        self.received = _received(self.receiver) - self.before
        return Burst(sent, took_ns if forwarding_ns is None else forwarding_ns() - ran)

    def _settle(self, residual_s: float, forwarding_ns: Callable[[], int] | None) -> None:
        """Wait until all frames arrived and the DUT stopped working, for at most the residual wait."""
        until = time.monotonic() + residual_s
        time.sleep(_FORWARDED_S)
        ran, calm = -1, False
        while not calm and time.monotonic() < until:
            now = forwarding_ns() if forwarding_ns is not None else 0
            calm = now == ran and _received(self.receiver) - self.before >= self.sent
            ran = now
            if not calm:
                time.sleep(_LOOK_S)

    def counts(self, intended: int) -> DirectionCounts:
        received = self.received if self.shared else _received(self.receiver) - self.before
        mean = sum(map(len, self.frames)) / len(self.frames) + FCS_BYTES
        return DirectionCounts(
            direction=self.direction,
            intended=intended,
            sent=self.sent,
            refused=intended - self.sent,
            skipped=0,
            received=min(received, self.sent),
            duplicated=None,
            out_of_order=None,
            foreign=max(0, received - self.sent),
            corrupted=None,
            sent_bytes=round(self.sent * mean),
            received_bytes=round(min(received, self.sent) * mean),
            elapsed_ns=max(1, self.busy_ns),
        )


def burst_of(frame_size: int) -> int:
    """How many frames of this size, in bytes with FCS, are sent at once."""
    return max(1, min(MOST_IN_A_BURST, _SOCKET_BYTES // (frame_size + _FRAME_OVERHEAD_BYTES)))


def _interface(port: GeneratorPort) -> str:
    name = port.device.removeprefix(_DEVICE)
    if name == port.device or "," in name:
        raise ConfigError(
            f"port {port.name!r} is by {port.device!r}; in virtual time ports are veth pairs: leave its kind out"
        )
    return name


def _has_carrier(interface: str) -> bool:
    with suppress(OSError):  # an interface that is down has none to read
        return (_INTERFACES / interface / "carrier").read_text(encoding="ascii").strip() == "1"
    return False


def _received(interface: str) -> int:
    try:
        return int((_INTERFACES / interface / "statistics/rx_packets").read_text(encoding="ascii"))
    except OSError as error:
        raise GeneratorError(f"interface {interface} is gone: {error.strerror}") from error
