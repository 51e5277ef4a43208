"""Where this machine gets Debian's packages from, and a private apt for another release's packages.

The private apt has its sources, lists, cache and (empty) list of installed packages in a directory that the caller
removes; this machine's own are neither read nor changed. apt checks downloads against the release's signed lists.
"""

from __future__ import annotations

import re
import subprocess
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.process.process import describe_exit, run
from pytest_nfvperf.model.errors import ConfigError, TestbedError

_COMPONENT = "main"
_FIELDS = "$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)\t$(TRUSTED)\t$(ORIGIN)"
_DEBIAN = "Debian"
_RELEASE = re.compile(r"[a-z]+")
_UPDATE_DEADLINE_S, _DOWNLOAD_DEADLINE_S = 180.0, 300.0
_UNPACK_DEADLINE_S = 60.0
_LEFT_OUT = ("./usr/share/doc/*", "./usr/share/man/*", "./usr/share/locale/*", "./usr/share/info/*")
_MERGED = ("bin", "sbin", "lib", "lib64")
_DIRECTORIES = ("lists/partial", "cache/archives/partial", "none.d")


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive of Debian.

    Attributes:
        signed_by: the keyring that the machine's source names; empty for apt's own.
        trusted: the machine's source needs no signature.
    """

    uri: str
    signed_by: str = ""
    trusted: bool = False

    def source_line(self, release: str) -> str:
        options = [f"signed-by={self.signed_by}"] if self.signed_by else []
        options += ["trusted=yes"] if self.trusted else []
        bracket = f"[{' '.join(options)}] " if options else ""
        return f"deb {bracket}{self.uri} {release} {_COMPONENT}\n"


def debian_archive() -> Archive:
    """The archive from which this machine's apt gets Debian; ConfigError without one, or without fetched lists."""
    listed = run(["apt-get", "indextargets", "--format", _FIELDS, "Created-By: Packages"], deadline_s=30.0)
    found = debian_archives(line.split("\t") for line in listed.splitlines())
    if not found:
        raise ConfigError(
            "apt knows no archive of Debian here (/etc/apt/sources.list*): add one and run apt-get update, or name "
            "one by --mirror"
        )
    return found[0]


def debian_archives(targets: Iterable[list[str]]) -> list[Archive]:
    """Debian's releases among apt's index targets, without updates, in apt's order."""
    # apt leaves the name of a field in place if a source has none
    return [
        Archive(uri, "" if signed_by.startswith("$(") else signed_by, trusted == "yes")
        for uri, release, component, signed_by, trusted, origin in targets
        if component == _COMPONENT and origin == _DEBIAN and "-" not in release
    ]


class PrivateApt:
    def __init__(self, release: str, archive: Archive, scratch: Path) -> None:
        """Fetch the lists of a release, by its codename, into an empty directory, which the caller removes.

        ConfigError if there is no such release, or the archive does not have it.
        """
        if not _RELEASE.fullmatch(release):
            raise ConfigError(f"{release!r} is no codename of a Debian release: write e.g. debian:bookworm")
        self._release = release
        self._options = _options(scratch)
        self._archives = scratch / "cache" / "archives"
        for name in _DIRECTORIES:
            (scratch / name).mkdir(parents=True)
        (scratch / "status").touch()
        (scratch / "sources.list").write_text(archive.source_line(release), encoding="utf-8")
        try:
            run(["apt-get", "--quiet=2", *self._options, "update"], deadline_s=_UPDATE_DEADLINE_S)
        except TestbedError as error:
            raise ConfigError(
                f"the lists of Debian {release!r} cannot be fetched from {archive.uri}: is it a release's codename, "
                f"and does the archive have it? apt-get says: {_words(error)}"
            ) from error

    def download(self, what: str, *packages: str) -> list[Path]:
        """Fetch packages and all that they depend on; returns the archives, which the caller may remove.

        ``what`` they are is for the error, such as "Open vSwitch". TestbedError, with apt's own message, if the release
        does not have them, or the download failed.
        """
        how = ["install", "--download-only", "--yes", "--no-install-recommends"]
        try:
            run(["apt-get", "--quiet=2", *self._options, *how, *packages], deadline_s=_DOWNLOAD_DEADLINE_S)
        except TestbedError as error:
            raise TestbedError(
                f"the packages of {what} of Debian {self._release!r} cannot be downloaded: {_words(error)}",
                evidence=error.evidence,
            ) from error
        return sorted(self._archives.glob("*.deb"))


def unpack_root(packages: Iterable[Path], root: Path) -> dict[str, str]:
    """Unpack archives into a new directory, whose folders are merged below usr/, and remove them. No script runs.

    Returns the packages' versions. TestbedError, with tar's message, if one cannot be unpacked.
    """
    root.mkdir()
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    versions = {}
    for package in packages:
        _unpack(package, root)
        package.unlink()
        name, version, _ = package.name.split("_")  # openvswitch-switch_3.1.0-2_amd64.deb
        versions[name] = urllib.parse.unquote(version)  # apt writes ":" as "%3a"
    return versions


def _unpack(package: Path, directory: Path) -> None:
    """Unpack by tar, which keeps ``lib`` a link to ``usr/lib`` where a package has files in both."""
    tar = ["tar", "--extract", "--keep-directory-symlink", "--directory", str(directory), "--file", "-"]
    excluded = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    read = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(read, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:
        done = subprocess.run(
            [*tar, *excluded],
            stdin=reader.stdout,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_UNPACK_DEADLINE_S,
        )
    program, status = ("tar", done.returncode) if done.returncode else ("dpkg-deb", reader.returncode)
    if status != 0:
        stderr = " ".join(done.stderr.strip().splitlines()[-2:])
        raise TestbedError(
            f"{package.name} cannot be unpacked into {directory}: {program} {describe_exit(status)}: {stderr}",
            evidence={"stderr": done.stderr},
        )


def _words(error: TestbedError) -> str:
    return error.evidence.get("stderr", error.message).strip()


def _options(scratch: Path) -> list[str]:
    settings = {
        "Dir::State": scratch,
        "Dir::State::lists": scratch / "lists",
        "Dir::State::status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        "Dir::Etc::sourcelist": scratch / "sources.list",
        "Dir::Etc::sourceparts": scratch / "none.d",
        "Dir::Etc::preferences": scratch / "none",
        "Dir::Etc::preferencesparts": scratch / "none.d",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
        "APT::Get::AllowUnauthenticated": "false",
        "APT::Update::Error-Mode": "any",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
