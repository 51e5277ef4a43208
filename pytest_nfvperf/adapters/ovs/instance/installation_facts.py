"""What is known of an installation beside its versions: where it is from, and how it was built."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries
from pytest_nfvperf.adapters.ovs.instance.running_ovs import RunningOvs
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import INSTALLED
from pytest_nfvperf.model.testbed.testbed import OvsSpec

_TYPES = (("port types", "iface_types"), ("datapath types", "datapath_types"))


def installation_facts(spec: OvsSpec, binaries: OvsBinaries, instance: RunningOvs) -> dict[str, Any]:
    """Fields of a DatapathInfo: ``installation``, ``origin`` and ``build``."""
    named = next((version for version in spec.versions if version.prefix == spec.prefix), None)
    origin = named.origin if named is not None else ""
    build = named.build if named is not None else ()
    if spec.prefix is None:
        build += _package(str(binaries.vswitchd))
    if named is not None and named.checksum:
        build += (("checksum", named.checksum),)
    return {
        "installation": str(binaries.vswitchd),
        "origin": origin or ("prefix" if spec.prefix is not None else INSTALLED),
        "build": (*build, *_compiled_in(instance)),
    }


def _compiled_in(instance: RunningOvs) -> tuple[tuple[str, str], ...]:
    """What vswitchd says that it was built with: kinds of ports, such as dpdk and afxdp, and of datapaths."""
    columns = [(name, column) for name, column in _TYPES if instance.db.has_column("Open_vSwitch", column)]
    known = ((name, sorted(getattr(instance.db.root, column))) for name, column in columns)
    return tuple((name, ", ".join(map(str, types))) for name, types in known if types)


@cache
def _package(vswitchd: str) -> tuple[tuple[str, str], ...]:
    """Debian's package that an installed vswitchd is of, and its version; empty where dpkg does not know the file."""
    try:
        owner, _, _ = run(["dpkg-query", "--search", str(Path(vswitchd).resolve())]).partition(": ")
        return ((owner, run(["dpkg-query", "--show", "--showformat=${Version}", owner])),)
    except TestbedError:  # no dpkg here, or it was installed by hand
        return ()
