"""Finding OVN: the distribution's packages, or what was installed under /usr/local."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.model.errors import TestbedError

_PROGRAMS = ("ovn-northd", "ovn-controller")
_SHARES = (Path("/usr/share/ovn"), Path("/usr/local/share/ovn"))
_VERSION = re.compile(r"ovn-northd (\S+)")


@dataclass(frozen=True, slots=True)
class OvnBinaries:
    """One installation of OVN. ``nb_schema``, ``sb_schema``: of the northbound and southbound databases."""

    northd: Path
    controller: Path
    nbctl: Path
    sbctl: Path
    nb_schema: Path
    sb_schema: Path
    version: str


def locate_ovn() -> OvnBinaries:
    """Find the programs and the schemas, and ask northd for its version.

    Raises:
        TestbedError: OVN is not installed: what is missing, and the packages to install.
    """
    northd = _program("ovn-northd")
    version = _VERSION.search(run([northd, "--version"]))
    return OvnBinaries(
        northd=northd,
        controller=_program("ovn-controller"),
        nbctl=_program("ovn-nbctl"),
        sbctl=_program("ovn-sbctl"),
        nb_schema=_schema("ovn-nb.ovsschema"),
        sb_schema=_schema("ovn-sb.ovsschema"),
        version=version.group(1) if version else "unknown",
    )


def lacks_ovn() -> str | None:
    """What this machine lacks for a private OVN, and what to do about it; None when it has all."""
    try:
        locate_ovn()
    except TestbedError as error:
        return error.message
    return None


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise _missing(name, "on PATH")
    return Path(found)


def _schema(name: str) -> Path:
    for share in _SHARES:
        if (share / name).is_file():
            return share / name
    raise _missing(name, f"in {', '.join(map(str, _SHARES))}")


def _missing(name: str, where: str) -> TestbedError:
    return TestbedError(f"OVN is not installed: no {name} {where}: {install_hint(*_PROGRAMS)}")
