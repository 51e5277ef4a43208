"""Where this machine gets Debian's packages from, by its own apt sources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.errors import ConfigError

_COMPONENT = "main"
_FIELDS = "$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)\t$(TRUSTED)\t$(ORIGIN)"
_DEBIAN = "Debian"


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive of Debian.

    Attributes:
        uri: as in a sources file.
        signed_by: the keyring that the machine's source names; empty for apt's own.
        trusted: the machine's source needs no signature.
    """

    uri: str
    signed_by: str = ""
    trusted: bool = False

    def source_line(self, release: str) -> str:
        """The line of a sources.list(5) for a release."""
        options = [f"signed-by={self.signed_by}"] if self.signed_by else []
        options += ["trusted=yes"] if self.trusted else []
        bracket = f"[{' '.join(options)}] " if options else ""
        return f"deb {bracket}{self.uri} {release} {_COMPONENT}\n"


def debian_archive() -> Archive:
    """The archive that this machine's apt has Debian from.

    Raises:
        ConfigError: its sources name none, or its lists were never fetched.
    """
    listed = run(["apt-get", "indextargets", "--format", _FIELDS, "Created-By: Packages"], deadline_s=30.0)
    found = archives(line.split("\t") for line in listed.splitlines())
    if not found:
        raise ConfigError(
            "apt knows no archive of Debian here (/etc/apt/sources.list*): add one and run apt-get update, or name "
            "one by --mirror"
        )
    return found[0]


def archives(targets: Iterable[list[str]]) -> list[Archive]:
    """Of apt's index targets those of Debian's releases themselves, not of their updates, the first first."""
    found = []
    for uri, release, component, signed_by, trusted, origin in targets:
        if component == _COMPONENT and origin == _DEBIAN and "-" not in release:
            # apt leaves the name of a field in place where a source has none
            found.append(Archive(uri, "" if signed_by.startswith("$(") else signed_by, trusted == "yes"))
    return found
