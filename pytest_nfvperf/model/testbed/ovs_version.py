"""A version of Open vSwitch that can be the DUT: where it is, and where it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.errors import ConfigError

INSTALLED = "installed"
"""As a place of a version: the distribution's package on this machine."""
VERSION_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}$"


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A version that ``nfvperf ovs add`` has made known.

    Attributes:
        name: by which options, testbed files and tests call it.
        origin: "debian:bookworm", "git:<commit>" or "prefix".
        place: its root or prefix on this machine.
        version: of OVS.
        dpdk_version: None where it was built without DPDK.
        checksum: SHA-256 of its files, as they were when it was added.
        added: date and time, ISO 8601, UTC.
        build: how it was made, by name: package versions, options of configure.
    """

    name: str
    origin: str
    place: str
    version: str
    dpdk_version: str | None
    checksum: str
    added: str
    build: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class NamedOvs:
    """A version that a testbed gives a name, for tests to ask for it.

    Attributes:
        name: as in ``Dut(version=...)``.
        where: as the user wrote it: "installed", a path, or the name of a kept version.
        prefix: the path that this is; None for the distribution's package, and before it was looked up.
        origin, checksum, build: as of a KeptVersion; empty where nothing is known.
        settings: keys of Open_vSwitch other_config that it has beside the testbed's.
    """

    name: str
    where: str
    prefix: str | None = None
    origin: str = ""
    checksum: str = ""
    build: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


def can_name(name: str) -> bool:
    """True for what can be the name of a version."""
    return re.fullmatch(VERSION_NAME, name) is not None and name != INSTALLED


def checked_name(name: str) -> str:
    """The name, if it can be one.

    Raises:
        ConfigError: what a name consists of.
    """
    if not can_name(name):
        raise ConfigError(
            f"{name!r} cannot name a version of Open vSwitch: write letters, digits and . _ : + -, beginning with a "
            f"letter or digit, 64 at most, and not {INSTALLED!r}, which is the distribution's package"
        )
    return name


def given_versions(given: Sequence[str]) -> tuple[str | None, tuple[NamedOvs, ...]]:
    """The ``--nfv-ovs`` of a command line: the place of the testbed's own OVS, if one is given, and the named ones.

    Args:
        given: "WHERE" or "NAME=WHERE" each. A path may have "=" in it: what stands before the first is a name only if
            it has no slash.

    Raises:
        ConfigError: two places for the testbed's own, a name twice, or nothing where a place should be.
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
