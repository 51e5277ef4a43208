"""What every DatapathVersions keeps to: Open vSwitch's and testpmd's."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import toy_ovs
import toy_testpmd

from pytest_nfvperf.adapters.ovs import installation
from pytest_nfvperf.backends.foreign_datapaths import OWN_VERSIONS
from pytest_nfvperf.features.versions import git_build
from pytest_nfvperf.features.versions.git_build import find_revision
from pytest_nfvperf.features.versions.origins import add_version
from pytest_nfvperf.features.versions.registry import VERSION_FILE, Registry, checksum, resolve_version
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs
from pytest_nfvperf.model.testbed.testbed import DatapathInfo
from pytest_nfvperf.ports.datapath import DatapathVersions


@dataclass(frozen=True)
class Toy:
    """Stand-ins of one kind of datapath. ``older``, ``newer``: of the tree's two commits; ``break_tree`` adds one."""

    versions: DatapathVersions
    prefix: Callable[[Path], Path]
    tree: Callable[[Path], Path]
    older: str
    newer: str
    program: str
    break_tree: Callable[[Path], object]


TOYS = {
    "ovs": Toy(
        OWN_VERSIONS["ovs"],
        toy_ovs.prefix,
        toy_ovs.buildable,
        *("3.3.0", "3.4.0", "sbin/ovs-vswitchd"),
        lambda tree: toy_ovs.commit(tree, "broken", broken="no\n"),
    ),
    "testpmd": Toy(
        OWN_VERSIONS["testpmd"],
        toy_testpmd.prefix,
        toy_testpmd.buildable,
        *("22.11.0", "23.11.0", "bin/dpdk-testpmd"),
        lambda tree: toy_testpmd.release(tree, "broken"),
    ),
}


def test_every_datapath_of_this_package_is_tested() -> None:
    assert set(TOYS) == set(OWN_VERSIONS)


@pytest.fixture(params=list(TOYS))
def toy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Toy:
    found = {"meson", "ninja", "cc"}
    monkeypatch.setattr(git_build, "find", lambda name: shutil.which(name) if name in found else f"/usr/bin/{name}")
    return TOYS[request.param]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Registry()


def test_a_prefix_is_kept_as_a_version_of_its_datapath(toy: Toy, registry: Registry, tmp_path: Path) -> None:
    directory, kind = toy.prefix(tmp_path / "mine"), toy.versions.kind
    version, is_new = add_version(str(directory), registry, datapath=kind)
    assert is_new
    assert (version.datapath, version.origin, version.dpdk_version) == (kind, "prefix", "23.11.1")
    assert registry.find("mine") == version
    assert not add_version(str(directory), registry, datapath=kind)[1]
    assert resolve_version(NamedOvs("n", "mine"), registry).datapath == kind
    assert resolve_version(NamedOvs("n", str(directory)), registry).datapath == kind, "a path is looked at"


def test_a_name_of_another_datapaths_version_is_refused(toy: Toy, registry: Registry, tmp_path: Path) -> None:
    other = next(each for each in TOYS.values() if each is not toy)
    toy.prefix(tmp_path / "both")
    other.prefix(tmp_path / "second")
    shutil.copytree(tmp_path / "second", tmp_path / "both", dirs_exist_ok=True)
    add_version(str(tmp_path / "both"), registry, datapath=toy.versions.kind)
    with pytest.raises(ConfigError, match="'both' is the name of another version"):
        add_version(str(tmp_path / "both"), registry, datapath=other.versions.kind)
    assert resolve_version(NamedOvs("n", str(tmp_path / "both")), registry).datapath == "", "it can be either"


def test_what_is_not_there_is_refused_with_where_it_was_looked_for(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"holds no {toy.versions.name}.*{tmp_path}/{toy.program}"):
        toy.versions.look_at(str(tmp_path))


def test_a_missing_library_is_named(toy: Toy, tmp_path: Path) -> None:
    said = "error while loading shared libraries: librte_eal.so.21: cannot open shared object file"
    (toy.prefix(tmp_path) / toy.program).write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 127\n")
    with pytest.raises(ConfigError, match=r"does not start: the library librte_eal\.so\.21 is missing"):
        toy.versions.look_at(str(tmp_path))


def test_a_program_that_says_no_version_is_an_error(toy: Toy, tmp_path: Path) -> None:
    (toy.prefix(tmp_path) / toy.program).write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(TestbedError, match=r"does not say a.* version"):
        toy.versions.look_at(str(tmp_path))


def test_a_program_that_does_not_answer_is_no_fault_of_ours(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (toy.prefix(tmp_path) / toy.program).write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(installation, "_ASK_DEADLINE_S", 0.2)
    with pytest.raises(TestbedError, match=r"does not start: .*timed out after 0\.2 seconds"):
        toy.versions.look_at(str(tmp_path))


def test_the_checksum_is_of_the_program(toy: Toy, tmp_path: Path) -> None:
    directory = toy.prefix(tmp_path)
    before = checksum(toy.versions.files(str(directory)), directory)
    with (directory / toy.program).open("a") as program:
        program.write("# changed\n")
    assert checksum(toy.versions.files(str(directory)), directory) != before


def test_revisions_are_built_in_one_workshop(toy: Toy, registry: Registry, tmp_path: Path) -> None:
    """Steps: build the older of two commits, the newer, and one that is broken. Verify: versions, one configure."""
    tree, kind = toy.tree(tmp_path / "tree"), toy.versions.kind
    old = add_version("git:HEAD~1", registry, "old", source=tree, datapath=kind)[0]
    (workshop,) = (registry.directory.parent / "ovs-builds").iterdir()
    configured = (workshop / "configured").stat().st_mtime_ns
    new = add_version("git:HEAD", registry, "new", source=tree, datapath=kind)[0]
    assert [(each.version, each.datapath) for each in (old, new)] == [(toy.older, kind), (toy.newer, kind)]
    assert old.checksum != new.checksum
    assert toy.versions.look_at(old.place).version == toy.older, "the newer build left the older one alone"
    assert (workshop / "configured").stat().st_mtime_ns == configured
    toy.break_tree(tree)
    with pytest.raises(TestbedError, match=rf"of {toy.versions.name} failed; it says: "):
        add_version("git:HEAD", registry, "broken", source=tree, datapath=kind)
    assert not registry.has("broken")
    assert subprocess.run(["git", "status", "--porcelain"], cwd=tree, check=True, capture_output=True).stdout == b""


def test_a_tree_of_another_datapath_is_refused(toy: Toy, tmp_path: Path) -> None:
    other = next(each for each in TOYS.values() if each is not toy)
    tree = other.tree(tmp_path / "tree")
    with pytest.raises(ConfigError, match=rf"is no tree of {toy.versions.name}: it has no {toy.versions.sources[0]}"):
        find_revision(tree, "HEAD", toy.versions)


def test_a_missing_tool_is_named_with_its_package(
    toy: Toy, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = toy.versions.tools[0]
    monkeypatch.setattr(git_build, "find", lambda name: None if name == missing else f"/usr/bin/{name}")
    tree = toy.tree(tmp_path / "tree")
    with pytest.raises(ConfigError, match=rf"building {toy.versions.name} needs {missing}: apt-get install "):
        add_version("git:HEAD", registry, source=tree, datapath=toy.versions.kind)


def test_a_version_without_a_datapath_is_of_open_vswitch(registry: Registry, tmp_path: Path) -> None:
    """As ``version.json`` was before other datapaths had versions."""
    add_version(str(toy_ovs.prefix(tmp_path / "old")), registry)
    path = registry.directory_of("old") / VERSION_FILE
    raw = json.loads(path.read_text())
    del raw["datapath"]
    path.write_text(json.dumps(raw))
    assert registry.find("old").datapath == "ovs"


class Packaged(DatapathVersions):
    """It cannot do more than look."""

    kind = "acme:wire"

    def look_at(self, prefix: str | None) -> DatapathInfo:
        raise NfvperfError(f"not in {prefix}")


def test_what_a_datapath_leaves_out_is_refused(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps: add a release and a revision of one that has neither packages nor sources."""
    monkeypatch.setattr("pytest_nfvperf.features.versions.origins.known_versions", lambda _: Packaged())
    for what, reason in (
        ("debian:bookworm", "acme:wire is in no package of Debian"),
        ("git:HEAD", "acme:wire cannot be built from a git tree"),
    ):
        with pytest.raises(ConfigError, match=reason):
            add_version(what, registry, source=tmp_path, datapath="acme:wire")
