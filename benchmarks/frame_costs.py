"""What a frame of each stack costs the engine: to write it, and to compare a received one with what was sent.

The engine's own template.c and frame.c are driven without a ring, so that nothing else is in the figures.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.layers.sctp import SCTP
from scapy.layers.vxlan import VXLAN

from benchmarks.table import Figure
from pytest_nfvperf.adapters.generators.embedded.build import source_dir
from pytest_nfvperf.adapters.generators.frames import program_of
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.traffic.frame_program import FrameProgram
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.generator import GeneratorPort

_PORTS = {name: GeneratorPort(name, "", f"02:00:00:00:00:0{at}") for at, name in enumerate("ab", 1)}
_RUN_S = 120.0


def _packet(packet: Ether, *vary: Vary, frame_size: int = 128) -> Traffic:
    return Traffic(packet=packet, vary=vary, frame_size=frame_size)


SOURCES, RANDOM = Vary("IP.src", 1000), Vary("IP.dst", 10_000, order="random")
STACKS = {
    "UDP, 64 bytes, 1,000 flows": Traffic(flows=1000),
    "UDP with its checksum": _packet(Ether() / IP() / UDP(), SOURCES),
    "UDP, 10,000 random destinations": _packet(Ether() / IP() / UDP(chksum=0), RANDOM),
    "TCP": _packet(Ether() / IP() / TCP(), SOURCES),
    "TCP, two fields": _packet(Ether() / IP() / TCP(), RANDOM, Vary("TCP.sport", 64)),
    "ICMP": _packet(Ether() / IP() / ICMP(), SOURCES),
    "SCTP": _packet(Ether() / IP() / SCTP(), SOURCES),
    "QinQ, TCP": _packet(Ether() / Dot1AD() / Dot1Q() / IP() / TCP(), SOURCES),
    "MPLS, two labels, UDP": _packet(Ether() / MPLS(s=0) / MPLS() / IP() / UDP(), SOURCES),
    "IPv6, UDP": _packet(Ether() / IPv6() / UDP(), Vary("IPv6.src", 1000)),
    "GTP-U, UDP": _packet(
        Ether() / IP() / UDP(chksum=0) / GTP_U_Header(teid=1) / IP() / UDP(), Vary("GTP_U_Header.teid", 1000)
    ),
    "VXLAN, UDP": _packet(Ether() / IP() / UDP(chksum=0) / VXLAN() / Ether() / IP() / UDP(), Vary("IP[2].src", 1000)),
    "Geneve, TCP, all checksums": _packet(
        Ether() / IP() / UDP() / GENEVE() / Ether() / IP() / TCP(), Vary("IP[2].src", 1000)
    ),
    "UDP, 1518 bytes": _packet(Ether() / IP() / UDP(chksum=0), SOURCES, frame_size=1518),
}


def frame_costs() -> list[Figure]:
    """Cycles of the time stamp counter for each frame of each stack, the fewest of some rounds."""
    native = source_dir()
    with TemporaryDirectory() as made:
        (Path(made) / "frame_costs.h").write_text(_header())
        options = ["-std=gnu11", "-O3", "-march=native", "-D_GNU_SOURCE", f"-I{native}", f"-I{made}"]
        sources = [
            str(Path(__file__).with_suffix(".c")),
            *(str(native / f"{name}.c") for name in ("frame", "template")),
        ]
        run(["cc", *options, "-o", f"{made}/frame-costs", *sources], deadline_s=_RUN_S)
        rows = [line.split("\t") for line in run([f"{made}/frame-costs"], deadline_s=_RUN_S).splitlines()]
    return [
        Figure(name, f"write {float(write):.0f}, check {float(check):.0f} cycles", "none wrong", wrong == "0")
        for name, write, check, wrong in rows
    ]


def _header() -> str:
    programs = [program_of(each, Direction("a", "b"), _PORTS, reverse=False) for each in STACKS.values()]
    frames = [f"static const uint8_t frame_{at}[] = {{{_bytes(each)}}};" for at, each in enumerate(programs)]
    rows = [_row(at, name, each) for at, (name, each) in enumerate(zip(STACKS, programs, strict=True))]
    return "\n".join([*frames, "static struct stack stacks[] = {", *rows, "};", ""])


def _bytes(program: FrameProgram) -> str:
    return ", ".join(map(str, program.templates[0]))


def _row(at: int, name: str, program: FrameProgram) -> str:
    """As the engine reads a stream (native/plan.c)."""
    fields = [
        f"{{.offset = {each.offset}, .size = {each.size}, .shift = {each.shift}, .bits = {each.bits}, "
        f".random = {int(each.order == 'random')}, .seed = {each.seed}, .first = {each.first}u, .step = {each.step}u, "
        f".count = {each.count}, .every = {each.every}}}"
        for each in program.fields
    ]
    checksums = [
        f"{{.crc32c = {int(each.kind == 'crc32c')}, .signature = {int(each.signature)}, "
        f".never_zero = {int(each.never_zero)}, .offset = {each.offset}, .start = {each.start}, .end = {each.end}, "
        f".fields = {sum(1 << one for one in each.fields)}, .checksums = {sum(1 << one for one in each.checksums)}}}"
        for each in program.checksums
    ]
    changeable = [f"{{{offset}, {length}}}" for offset, length in program.changeable]
    lists = {"field": fields, "checksum": checksums, "changeable": changeable}
    counted = [f".{key}s = {len(each)}, .{key} = {{{', '.join(each)}}}" for key, each in lists.items() if each]
    parts = ", ".join([f".combinations = {program.combinations}, .compared_from = {program.compared_from}", *counted])
    return (
        f'{{.name = "{name}", .set = {{{parts}}}, .bytes = frame_{at}, .length = sizeof(frame_{at}), '
        f".signature = {program.signatures[0]}}},"
    )
