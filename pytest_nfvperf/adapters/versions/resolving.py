"""From what a user wrote for a version of Open vSwitch to the path that it is on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_nfvperf.adapters.versions.registry import Registry
from pytest_nfvperf.model.compare.sides import Side
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.ovs_settings import INSTALLED, NamedOvs, given_versions
from pytest_nfvperf.model.testbed.testbed import OvsSpec


def with_versions(ovs: OvsSpec, given: Sequence[str] = ()) -> OvsSpec:
    """A testbed's OVS with its own version and the named ones looked up.

    Args:
        ovs: as the testbed file has it.
        given: ``--nfv-ovs`` of the command line, which are stronger.

    Raises:
        ConfigError: what is given contradicts itself, or is neither a kept version nor a path.
    """
    registry = Registry()
    own, named = given_versions(given)
    versions = {version.name: version for version in (*ovs.versions, *named)}
    place = own or ovs.prefix
    found = [resolved(version, registry) for version in versions.values()]
    if place is None:
        return replace(ovs, versions=tuple(found))
    this = resolved(NamedOvs(place, place), registry)
    kept = [this] if this.checksum and place not in versions else []  # its origin and build go into the evidence
    return replace(ovs, prefix=this.prefix, versions=(*found, *kept))


def found_versions(ovs: OvsSpec, given: Sequence[str], sides: Sequence[Side] | None) -> OvsSpec:
    """``with_versions``, and then ``with_sides`` in a run that compares some."""
    ovs = with_versions(ovs, given)
    return ovs if sides is None else with_sides(ovs, sides)


def with_sides(ovs: OvsSpec, sides: Sequence[Side]) -> OvsSpec:
    """A testbed's OVS with a version for each side of a comparison, called as the side.

    Args:
        ovs: as ``with_versions`` left it. Sides may name its versions.
        sides: of the comparison.

    Raises:
        ConfigError: a side is nowhere, or the testbed's OVS is not ours to exchange.
    """
    if ovs.instance == "system":
        raise ConfigError(
            "the testbed's OVS is the system's, which has one version and its own settings: write 'instance: private' "
            "to compare"
        )
    registry = Registry()
    known = {version.name: version for version in ovs.versions}
    found = [_side(side, known.get(side.where), registry) for side in sides]
    others = [version for name, version in known.items() if name not in {side.name for side in sides}]
    return replace(ovs, versions=(*found, *others))


def _side(side: Side, known: NamedOvs | None, registry: Registry) -> NamedOvs:
    place = known or resolved(NamedOvs(side.name, side.where), registry)
    return replace(place, name=side.name, settings=side.settings)


def resolved(version: NamedOvs, registry: Registry) -> NamedOvs:
    """A version of a testbed with the path that it is, and what is known of it.

    Args:
        version: ``where`` is "installed", the name of a kept version, or a path.
        registry: of the kept ones.

    Raises:
        ConfigError: neither a kept version nor a path.
    """
    where = version.where
    if where == INSTALLED:
        return NamedOvs(version.name, where, None, INSTALLED)
    if "/" not in where and not Path(where).is_dir():
        kept = registry.find(where)
        return NamedOvs(version.name, where, kept.place, kept.origin, kept.checksum, kept.build)
    return NamedOvs(version.name, where, str(Path(where).absolute()), "prefix")
