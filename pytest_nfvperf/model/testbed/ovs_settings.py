"""How OVS's userspace datapath is tuned, as data: to be swept like frame sizes, and recorded with every result.

Keys and their meaning: ovs-vswitchd.conf.db(5). What is None is left to OVS; its defaults differ between versions.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from pytest_nfvperf.model.arguments import checked
from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.fields import UNWRITTEN, VERSION_NAME, Count, Flag, QueueCpus, Whole, file_key
from pytest_nfvperf.model.topology.topology import Topology

RxqAssignment = Literal["cycles", "roundrobin", "group"]

_SLEEP = "pmd_sleep_max_us"

KEYS = {
    "emc_insert_inv_prob": ("emc-insert-inv-prob", (2, 7)),
    "smc": ("smc-enable", (2, 10)),
    "tx_flush_interval_us": ("tx-flush-interval", (2, 9)),
    "rxq_assign": ("pmd-rxq-assign", (2, 9)),
    "auto_lb": ("pmd-auto-lb", (2, 11)),
    _SLEEP: ("pmd-sleep-max", (3, 2)),
}
"""Fields that are a key of Open_vSwitch other_config: its name, and the version of OVS that brought it (NEWS)."""

_OLD_SLEEP = ("pmd-maxsleep", (3, 1), (3, 2))
"""OVS 3.1 alone called it so."""


@checked()
@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of the userspace datapath; None: OVS's own default.

    Attributes:
        rxq_affinity: CPUs of a port's queues: ``(("p0", "0:3,1:5"), ...)``.
        rx_descriptors, tx_descriptors: rings of physical ports.
        other_config: any further keys of Open_vSwitch other_config, as they are.
    """

    emc_insert_inv_prob: Annotated[
        Annotated[Whole, Field(ge=0, le=2**32 - 1)] | None,
        file_key("one of so many new flows enters the exact-match cache (OVS's default: 100); 0: none", 100),
    ] = None
    smc: Annotated[Flag | None, file_key("signature-match cache (smc-enable)")] = None
    tx_flush_interval_us: Annotated[
        Annotated[Whole, Field(ge=0, le=1_000_000)] | None,
        file_key("how long frames may wait for a batch to fill, us (tx-flush-interval)"),
    ] = None
    rxq_assign: Annotated[
        RxqAssignment | None,
        file_key("how receive queues are distributed to PMD threads (pmd-rxq-assign)"),
    ] = None
    auto_lb: Annotated[Flag | None, file_key("move queues of unequally busy PMD threads (pmd-auto-lb)")] = None
    pmd_sleep_max_us: Annotated[
        Annotated[Whole, Field(ge=0, le=10_000)] | None,
        file_key("how long an idle PMD thread may sleep, us (pmd-sleep-max); 0: never", 50),
    ] = None
    rxq: Annotated[Count | None, file_key("receive queues of each port")] = None
    rxq_affinity: Annotated[QueueCpus, file_key("CPUs of a port's queues", {"dpdk0": "0:3,1:5"})] = ()
    rx_descriptors: Annotated[int | None, UNWRITTEN] = None
    tx_descriptors: Annotated[int | None, UNWRITTEN] = None
    other_config: Annotated[tuple[tuple[str, str], ...], UNWRITTEN] = ()

    def __post_init__(self) -> None:
        for key, text in self.other_config:
            if reason := why_setting_refused(key, text):
                raise ArgumentError(reason)

    def __str__(self) -> str:
        """``emc_insert_inv_prob=0 smc=on``; ``default`` where nothing is set."""
        return " ".join(f"{name}={_shown(value)}" for name, value in self.given()) or "default"

    def over(self, below: Tuning) -> Tuning:
        """These settings, and those of ``below`` where this one sets nothing."""
        merged = replace(below, **dict(self.given()))
        return replace(merged, other_config=tuple({**dict(below.other_config), **dict(self.other_config)}.items()))

    def config(self, version: tuple[int, ...]) -> dict[str, str]:
        """The settings as keys of Open_vSwitch other_config; ValueError if this version of OVS does not know one."""
        unknown = self.unknown_to(version)
        if unknown is not None:
            raise ArgumentError(unknown)
        config = {}
        for name, value in self.given():
            if name in KEYS:
                key = _OLD_SLEEP[0] if name == _SLEEP and version[:2] < _OLD_SLEEP[2] else KEYS[name][0]
                config[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return config | dict(self.other_config)

    def unknown_to(self, version: tuple[int, ...]) -> str | None:
        """Which setting an OVS of this version does not know, and what to do; None if it knows all.

        OVS itself accepts any key silently, and ignores those that it does not know.
        """
        for name, _ in self.given():
            key, since = KEYS.get(name, ("", (0, 0)))
            if version[:2] < (_OLD_SLEEP[1] if name == _SLEEP else since):
                shown, first = (".".join(map(str, each[:2])) for each in (version, since))
                also = f" ({_OLD_SLEEP[0]} since {'.'.join(map(str, _OLD_SLEEP[1]))})" if name == _SLEEP else ""
                return (
                    f"OVS {shown} does not know {key}, which came with OVS {first}{also}: leave {name} out, or test a "
                    "newer OVS by --nfv-ovs"
                )
        return None

    def given(self) -> Iterator[tuple[str, Any]]:
        """Each setting that is not OVS's own."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value != ():
                yield field.name, value


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(f"{name}:{text}" for name, text in value)
    return str(value)


def with_queues(topology: Topology, tuning: Tuning) -> Topology:
    """The topology whose generator and VNF ports have the receive queues that the tuning asks for."""
    if tuning.rxq is None:
        return topology
    return replace(topology, ports=tuple(replace(port, queues=tuning.rxq) for port in topology.ports))


OVS_DEFAULT = Tuning()
"""Nothing is set."""


# Settings that keep a private OVS away from everything else on the host: no user's setting may replace them.
# DPDK's options: "EAL parameters" of its guide.

DPDK_EXTRA = "dpdk-extra"
"""A user's arguments are added to ours: OVS has one key for all of DPDK's."""

_INSTEAD = {
    "dpdk-init": "dut.ovs.datapath says whether OVS has DPDK: write 'datapath: dpdk' or 'netdev' there",
    "dpdk-hugepage-dir": "a private OVS keeps its memory in no file",
    "dpdk-lcore-mask": "DPDK's own threads run on the testbed's CPUs: write 'cpus: {housekeeping: ...}'",
    "dpdk-probe-at-init": "DPDK takes the NICs of dut.ports: write 'pci: ...' there",
    "pmd-cpu-mask": "the run locks the CPUs of PMD threads: write them as 'dut.ovs.pmd_cpus'",
    "userspace-tso-enable": "figures with it are those of another DUT: write Dut(userspace_tso=True) in the test",
}

_TAKES_DEVICES = "DPDK takes the NICs of dut.ports and no other: write 'pci: ...' there"
_PINS_THREADS = "DPDK's own threads run on the testbed's CPUs: write 'cpus: {housekeeping: ...}'"
_SIZES_MEMORY = "write other_config 'dpdk-socket-mem' for the size of OVS's memory"
_ISOLATES = "the run sets it, which keeps this OVS apart from other users of DPDK on the host"

_LONG_OPTIONS = {
    **dict.fromkeys(("allow", "block", "no-pci", "pci-blacklist", "pci-whitelist"), _TAKES_DEVICES),
    **dict.fromkeys(("lcores", "main-lcore", "master-lcore"), _PINS_THREADS),
    **dict.fromkeys(("legacy-mem", "no-huge", "socket-limit", "socket-mem"), _SIZES_MEMORY),
    **dict.fromkeys(("file-prefix", "huge-dir", "huge-unlink", "in-memory", "no-shconf"), _ISOLATES),
    **dict.fromkeys(("no-telemetry", "proc-type", "telemetry"), _ISOLATES),
}
_SHORT_OPTIONS = {**dict.fromkeys("abw", _TAKES_DEVICES), **dict.fromkeys("cl", _PINS_THREADS), "m": _SIZES_MEMORY}


def why_setting_refused(key: str, value: str) -> str:
    """Say why a user cannot set this key of other_config, and what to write instead; "" where it can be set."""
    if key in _INSTEAD:
        return f"{key} is the run's own: {_INSTEAD[key]}"
    if key != DPDK_EXTRA:
        return ""
    try:
        arguments = shlex.split(value)
    except ValueError as error:
        return f"{DPDK_EXTRA} {value!r} cannot be read: {error}"
    for argument in arguments:
        if reason := _refused_argument(argument):
            return f"{DPDK_EXTRA} has {argument!r}, which is the run's own: {reason}"
    return ""


def _refused_argument(argument: str) -> str:
    # DPDK reads options by getopt_long(3): a long one may be shortened, and a short one joined to its value.
    if argument == "--":
        return "nothing of ours may stand behind it"
    if argument.startswith("--"):
        given = argument.removeprefix("--").partition("=")[0]
        return next((reason for name, reason in _LONG_OPTIONS.items() if name.startswith(given)), "")
    return _SHORT_OPTIONS.get(argument[1:2], "") if argument.startswith("-") else ""


def append_dpdk_arguments(ours: str, users: str) -> str:
    """DPDK's arguments of a run with a user's behind them, where DPDK takes the last of an option given twice."""
    return f"{ours} {users}".strip()


# A version that can be the DUT: of Open vSwitch or of another datapath, where it is, and where it comes from.


INSTALLED = "installed"
"""As a place of a version: the distribution's package on this machine."""

OVS = "ovs"
DATAPATHS = ("dpdk", "netdev", "system")
"""Of Open vSwitch."""


def versioned_as(kind: str) -> str:
    """Of what a kind of datapath has versions: OVS for all of Open vSwitch's datapaths, else the kind itself."""
    return OVS if kind in DATAPATHS else kind


def versioned_name(versioned: str) -> str:
    """What messages call what versions are of: "Open vSwitch", "testpmd"."""
    return "Open vSwitch" if versioned == OVS else versioned


@dataclass(frozen=True, slots=True)
class CachedVersion:
    """A version that ``nfvperf ovs add`` has made known.

    Attributes:
        name: by which options, testbed files and tests call it.
        origin: "debian:bookworm", "git:<commit>" or "prefix".
        place: its root or prefix on this machine.
        version: of the datapath.
        dpdk_version: None where it was built without DPDK.
        checksum: SHA-256 of its files, as they were when it was added.
        added: date and time, ISO 8601, UTC.
        build: how it was made, by name: package versions, options of configure.
        datapath: what it is a version of (``versioned_as``).
    """

    name: str
    origin: str
    place: str
    version: str
    dpdk_version: str | None
    checksum: str
    added: str
    build: tuple[tuple[str, str], ...] = ()
    datapath: str = OVS


@dataclass(frozen=True, slots=True)
class NamedOvs:
    """A version that a testbed gives a name, for tests to ask for it.

    Attributes:
        name: as in ``Dut(version=...)``.
        where: as the user wrote it: "installed", a path, or the name of a kept version.
        prefix: the path that this is; None for the distribution's package, and before it was looked up.
        origin, checksum, build: as of a CachedVersion; empty where nothing is known.
        settings: keys of Open_vSwitch other_config that it has beside the testbed's.
        datapath: what it is a version of; empty for the installed one, and where nobody looked: of any.
    """

    name: str
    where: str
    prefix: str | None = None
    origin: str = ""
    checksum: str = ""
    build: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    datapath: str = ""


def can_name(name: str) -> bool:
    return re.fullmatch(VERSION_NAME, name) is not None and name != INSTALLED


def checked_name(name: str) -> str:
    """The name, if it can be one; else ConfigError, with what a name consists of."""
    if not can_name(name):
        raise ConfigError(
            f"{name!r} cannot name a version: write letters, digits and . _ : + -, beginning with a "
            f"letter or digit, 64 at most, and not {INSTALLED!r}, which is the distribution's package"
        )
    return name


def parse_version_options(given: Sequence[str]) -> tuple[str | None, tuple[NamedOvs, ...]]:
    """The ``--nfv-ovs`` of a command line: the place of the testbed's own OVS, if one is given, and the named ones.

    ``given``: "WHERE" or "NAME=WHERE" each. A path may have "=" in it: what stands before the first is a name only if
    it has no slash. ConfigError for two places for the testbed's own, a name twice, or no place.
    """
    own: list[str] = []
    named: dict[str, NamedOvs] = {}
    for text in given:
        name, equals, where = text.partition("=")
        if not equals or "/" in name:
            own.append(text)
        elif name in named:
            raise ConfigError(f"{name!r} is given twice: each version needs a name of its own", key="--nfv-ovs")
        elif not where:
            raise ConfigError(f"{text!r} says no place: write {name}=/opt/ovs-3.3.4", key="--nfv-ovs")
        else:
            named[name] = NamedOvs(checked_name(name), where)
    if len(own) > 1:
        raise ConfigError(
            f"{own[0]!r} and {own[1]!r} are both given as the testbed's own OVS: write NAME=WHERE for those that tests "
            "ask for by name",
            key="--nfv-ovs",
        )
    return (own[0] if own else None), tuple(named.values())
