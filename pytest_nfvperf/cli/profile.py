"""``nfvperf profile``: which functions of Open vSwitch spend a packet's instructions, and where two versions differ."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.cli.command import Command, path_like

if TYPE_CHECKING:
    from pytest_nfvperf.backends.function_profile import Profiled
    from pytest_nfvperf.cli.command import Commands
    from pytest_nfvperf.model.measure.function_costs import FunctionProfile

_TEXT = (
    "Which functions of Open vSwitch's userspace datapath spend a packet's instructions, counted by valgrind's "
    "callgrind; of two versions, in which functions they differ. Prints a table and draws flame graphs."
)


def _add_parser(commands: Commands) -> None:
    text = "which functions of Open vSwitch spend a packet's instructions, and in which two versions differ"
    parser = commands.add_parser("profile", help=text, description=_TEXT)
    parser.add_argument(
        "versions", nargs="+", metavar="VERSION", help="one or two, as for --nfv-ovs; the baseline first"
    )
    parser.add_argument("--frame-size", type=int, default=64, metavar="BYTES", help="with FCS (default: %(default)s)")
    parser.add_argument("--flows", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--bridges", type=int, default=1, help="joined by patch ports (default: %(default)s)")
    parser.add_argument("--frames", type=int, default=1024, help="counted each way (default: %(default)s)")
    parser.add_argument("--most", type=int, default=20, metavar="N", help="functions listed (default: %(default)s)")
    parser.add_argument(
        "--output", type=path_like, default=Path("reports/profile"), metavar="DIR", help="default: %(default)s"
    )
    parser.set_defaults(command=_profile)


PROFILE = Command(_add_parser)


def _profile(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.adapters.versions.registry import Registry  # noqa: PLC0415 - each command imports its own
    from pytest_nfvperf.adapters.versions.resolving import resolved  # noqa: PLC0415
    from pytest_nfvperf.backends.function_profile import profile_functions  # noqa: PLC0415
    from pytest_nfvperf.model.errors import ConfigError  # noqa: PLC0415
    from pytest_nfvperf.model.measure.function_costs import difference_lines, profile_lines  # noqa: PLC0415
    from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs  # noqa: PLC0415

    names: list[str] = arguments.versions
    if len(names) > 2 or len(set(names)) < len(names):
        raise ConfigError(f"name one version, or two that differ, not {', '.join(names)}")
    registry, profiled = Registry(), _profiled(arguments)
    places = [resolved(NamedOvs(name, name), registry).prefix for name in names]
    found = [profile_functions(name, place, profiled) for name, place in zip(names, places, strict=True)]
    if len(found) == 1:
        lines = profile_lines(found[0], arguments.most)
    else:
        lines = difference_lines(found[0], found[1], arguments.most)
    print("\n".join(lines))
    for path in _write(arguments.output, found):
        print(path)
    return 0


def _profiled(arguments: argparse.Namespace) -> Profiled:
    """ConfigError for what cannot be sent."""
    from pytest_nfvperf.backends.function_profile import Profiled  # noqa: PLC0415
    from pytest_nfvperf.model.errors import ConfigError  # noqa: PLC0415
    from pytest_nfvperf.model.topology.compose import bridge_chain, phy2phy  # noqa: PLC0415
    from pytest_nfvperf.model.traffic.traffic import Traffic  # noqa: PLC0415

    for name in ("bridges", "frames", "most"):
        if getattr(arguments, name) < 1:
            raise ConfigError(f"--{name} must be 1 or more, not {getattr(arguments, name)}")
    topology = phy2phy() if arguments.bridges == 1 else bridge_chain(arguments.bridges, link="patch")
    try:
        traffic = Traffic(frame_size=arguments.frame_size, flows=arguments.flows)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return Profiled(topology, traffic, arguments.frames)


def _write(directory: Path, found: list[FunctionProfile]) -> list[Path]:
    """Folded stacks and a flame graph of each version; the second's is coloured by what differs."""
    from pytest_nfvperf.adapters.report.flame_graph import function_flame_graph  # noqa: PLC0415
    from pytest_nfvperf.model.errors import TestbedError  # noqa: PLC0415

    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for number, profile in enumerate(found):
            stem = profile.name.strip("/").replace("/", "-").replace(":", "-")
            picture = function_flame_graph(profile, found[0] if number else None)
            for suffix, text in (("folded", profile.text()), ("svg", picture)):
                path = directory / f"{stem}.{suffix}"
                path.write_text(text, encoding="utf-8")
                written.append(path)
    except OSError as error:
        raise TestbedError(f"the profile cannot be written to {directory}: {error.strerror}") from error
    return written
