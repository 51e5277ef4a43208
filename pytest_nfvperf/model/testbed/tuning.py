"""How OVS's userspace datapath is tuned, as data: to be swept like frame sizes, and recorded with every result.

Keys and their meaning: ovs-vswitchd.conf.db(5). What is None is left to OVS; its defaults differ between versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from pytest_nfvperf.model.arguments import FLAG, INTEGER, TEXT, Allowed, checked, optional, several
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.testbed.protected_settings import refused_setting
from pytest_nfvperf.model.topology.topology import Topology

RXQ_ASSIGNMENTS = ("cycles", "roundrobin", "group")

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


_PAIRS = Allowed("pairs of texts, such as (('p0', '0:3,1:5'),)", several(several(TEXT, 2, 2)).accepts)
_COUNT = optional(INTEGER)


@checked(
    emc_insert_inv_prob=_COUNT,
    smc=optional(FLAG),
    tx_flush_interval_us=_COUNT,
    rxq_assign=optional(TEXT),
    auto_lb=optional(FLAG),
    pmd_sleep_max_us=_COUNT,
    rxq=_COUNT,
    rxq_affinity=_PAIRS,
    rx_descriptors=_COUNT,
    tx_descriptors=_COUNT,
    other_config=_PAIRS,
)
@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of the userspace datapath; None: OVS's own default.

    Attributes:
        emc_insert_inv_prob: one of so many new flows enters the exact-match cache (OVS's default: 100); 0: none.
        smc: the signature-match cache.
        tx_flush_interval_us: how long frames may wait for a batch to fill, us.
        rxq_assign: how receive queues are dealt out to PMD threads: cycles, roundrobin or group.
        auto_lb: move receive queues when PMD threads are unequally busy.
        pmd_sleep_max_us: an idle PMD thread sleeps up to so long, us; 0: never.
        rxq: receive queues of each port.
        rxq_affinity: CPUs of a port's queues: ``(("p0", "0:3,1:5"), ...)``.
        rx_descriptors, tx_descriptors: rings of physical ports.
        other_config: any further keys of Open_vSwitch other_config, as they are.
    """

    emc_insert_inv_prob: int | None = None
    smc: bool | None = None
    tx_flush_interval_us: int | None = None
    rxq_assign: str | None = None
    auto_lb: bool | None = None
    pmd_sleep_max_us: int | None = None
    rxq: int | None = None
    rxq_affinity: tuple[tuple[str, str], ...] = ()
    rx_descriptors: int | None = None
    tx_descriptors: int | None = None
    other_config: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.rxq_assign is not None and self.rxq_assign not in RXQ_ASSIGNMENTS:
            raise ArgumentError(f"rxq_assign must be {', '.join(RXQ_ASSIGNMENTS)}, not {self.rxq_assign!r}")
        if self.rxq is not None and self.rxq < 1:
            raise ArgumentError(f"rxq must be 1 or more, not {self.rxq}")
        for name, most in (("emc_insert_inv_prob", 2**32 - 1), ("tx_flush_interval_us", 1_000_000), (_SLEEP, 10_000)):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= most:
                raise ArgumentError(f"{name} must be 0..{most}, not {value}")
        for key, text in self.other_config:
            if reason := refused_setting(key, text):
                raise ArgumentError(reason)

    def __str__(self) -> str:
        """``emc_insert_inv_prob=0 smc=on``; ``default`` where nothing is set."""
        return " ".join(f"{name}={_shown(value)}" for name, value in self._set()) or "default"

    def over(self, below: Tuning) -> Tuning:
        """These settings, and those of ``below`` where this one sets nothing."""
        merged = replace(below, **dict(self._set()))
        return replace(merged, other_config=tuple({**dict(below.other_config), **dict(self.other_config)}.items()))

    def config(self, version: tuple[int, ...]) -> dict[str, str]:
        """The settings as keys of Open_vSwitch other_config, for an OVS of this version.

        Raises:
            ValueError: the version does not know a setting.
        """
        unknown = self.unknown_to(version)
        if unknown is not None:
            raise ArgumentError(unknown)
        given = {_key(name, version): _text(value) for name, value in self._set() if name in KEYS}
        return given | dict(self.other_config)

    def unknown_to(self, version: tuple[int, ...]) -> str | None:
        """Which setting an OVS of this version does not know, and what to do; None if it knows all.

        OVS itself accepts any key silently, and ignores those that it does not know.
        """
        for name, _ in self._set():
            key, since = KEYS.get(name, ("", (0, 0)))
            if version[:2] < (_OLD_SLEEP[1] if name == _SLEEP else since):
                shown, first = (".".join(map(str, each[:2])) for each in (version, since))
                also = f" ({_OLD_SLEEP[0]} since {'.'.join(map(str, _OLD_SLEEP[1]))})" if name == _SLEEP else ""
                return (
                    f"OVS {shown} does not know {key}, which came with OVS {first}{also}: leave {name} out, or test a "
                    "newer OVS by --nfv-ovs"
                )
        return None

    def _set(self) -> Iterator[tuple[str, Any]]:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value != ():
                yield field.name, value


def _key(name: str, version: tuple[int, ...]) -> str:
    old, _, renamed = _OLD_SLEEP
    return old if name == _SLEEP and version[:2] < renamed else KEYS[name][0]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(f"{name}:{text}" for name, text in value)
    return str(value)


def with_queues(topology: Topology, tuning: Tuning) -> Topology:
    """The topology whose generator and VNF ports have the receive queues that the tuning asks for."""
    rxq = tuning.rxq
    if rxq is None:
        return topology
    return replace(topology, ports=tuple(replace(port, queues=rxq) for port in topology.ports))


OVS_DEFAULT = Tuning()
"""Nothing is set."""
