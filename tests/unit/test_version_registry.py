"""Names of versions, what is kept of them, and the errors of adding and removing."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import toy_testpmd
from toy_ovs import buildable, commit, prefix, repository

from pytest_nfvperf.adapters.host.apt import Archive, debian_archives
from pytest_nfvperf.adapters.machine import reaper
from pytest_nfvperf.adapters.ovs.installation import OvsVersions, is_root, locate
from pytest_nfvperf.adapters.process.process import plain_environment
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.config.testbed_file import yaml_of_testbed
from pytest_nfvperf.features.versions import git_build
from pytest_nfvperf.features.versions.git_build import find_revision
from pytest_nfvperf.features.versions.origins import add_version, remove_orphaned_workshops
from pytest_nfvperf.features.versions.registry import (
    VERSION_FILE,
    Registry,
    checksum,
    resolve_version,
    resolve_versions,
)
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs, parse_version_options
from pytest_nfvperf.model.testbed.testbed import Dut, OvsSpec, ovs_for_dut
from tests.config_support import parse_testbed

OF = OvsVersions()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Registry()


def test_a_prefix_is_kept_with_version_origin_and_checksum(registry: Registry, tmp_path: Path) -> None:
    directory = prefix(tmp_path / "ovs-3.3.4")
    version, is_new = add_version(str(directory), registry)
    kept = registry.find("ovs-3.3.4")
    assert is_new
    assert kept == version
    assert (kept.origin, kept.place, kept.version, kept.dpdk_version) == ("prefix", str(directory), "3.3.4", "23.11.1")
    assert len(kept.checksum) == 64
    assert not add_version(str(directory), registry)[1]


def test_removing_leaves_a_prefix_of_the_users(registry: Registry, tmp_path: Path) -> None:
    directory = prefix(tmp_path / "mine")
    add_version(str(directory), registry)
    registry.remove("mine")
    assert (directory / "sbin/ovs-vswitchd").is_file()
    assert registry.all() == []
    assert [path.name for path in registry.directory.iterdir()] == ["lock"]


def test_a_pattern_removes_all_of_its_names_and_no_other(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = prefix(tmp_path / "mine")
    for name in ("git:a", "git:b", "mine"):
        add_version(str(directory), registry, name)
    assert main(["ovs", "remove", "git:*"]) == 0
    assert [version.name for version in registry.all()] == ["mine"]
    assert main(["ovs", "remove", "git:*"]) == 0, "where nothing is left, nothing is wrong"
    assert capsys.readouterr().out == "removed git:a\nremoved git:b\n"


def test_a_name_that_another_version_has_is_refused(registry: Registry, tmp_path: Path) -> None:
    add_version(str(prefix(tmp_path / "a" / "ovs")), registry)
    other = str(prefix(tmp_path / "b" / "ovs", "3.4.0"))
    with pytest.raises(ConfigError, match=r"'ovs' is the name of another version, ovs prefix in .*/a/ovs: .*--name"):
        add_version(other, registry)
    add_version(other, registry, name="newer")
    assert [(each.name, each.version) for each in registry.all()] == [("newer", "3.4.0"), ("ovs", "3.3.4")]


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b", "-x", "a=b", "x" * 65, "installed"])
def test_what_cannot_be_a_name(registry: Registry, tmp_path: Path, name: str) -> None:
    directory = prefix(tmp_path / "ovs")
    with pytest.raises(ConfigError, match=r"cannot name a version: write letters, digits and"):
        registry.find(name)
    if name:
        with pytest.raises(ConfigError, match="cannot name a version"):
            add_version(str(directory), registry, name=name)


def test_an_unknown_name_lists_the_known_ones(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no version is kept as 'x' \(kept: none\): `nfvperf ovs"):
        registry.remove("x")
    add_version(str(prefix(tmp_path / "ovs")), registry)
    with pytest.raises(ConfigError, match=r"kept as 'x' \(kept: ovs\)"):
        registry.find("x")


def test_what_a_killed_add_or_remove_left_is_removed_by_the_next(registry: Registry, tmp_path: Path) -> None:
    for name in (".partial-old", ".going-older"):
        (registry.directory / name / "root").mkdir(parents=True)
    add_version(str(prefix(tmp_path / "ovs")), registry)
    assert sorted(path.name for path in registry.directory.iterdir()) == ["lock", "ovs"]


def test_a_failed_add_leaves_nothing(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no Open vSwitch"):
        add_version(str(tmp_path / "empty"), registry)
    with pytest.raises(ConfigError, match=r"'/nowhere' is no directory: write debian:bookworm, git:v3\.3\.0, or"):
        add_version("/nowhere", registry)
    with pytest.raises(ConfigError, match=r"'Bookworm!' is no codename of a Debian release"):
        add_version("debian:Bookworm!", registry, name="x", mirror="file:///nowhere")
    assert registry.all() == []
    assert [path.name for path in registry.directory.iterdir()] == ["lock"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    """Steps: add to a cache on a disk that is full. Verify: one message; no half version."""
    disk, directory = tmp_path / "disk", prefix(tmp_path / "ovs")
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], check=True)
    try:
        (disk / "filler").write_bytes(b"x" * 16384)
        registry = Registry(disk / "versions")
        with pytest.raises(TestbedError, match=r"'ovs' cannot be kept in .*/disk/versions: No space left on device"):
            add_version(str(directory), registry)
        assert [path.name for path in registry.directory.iterdir()] == ["lock"]
        assert registry.all() == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_release_that_the_archive_does_not_have(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lists of Debian 'warty' cannot be fetched from file://.*apt-get says: E: "):
        add_version("debian:warty", registry, mirror=f"file://{tmp_path}/archive")
    assert not list(registry.directory.glob(".partial-*"))


def test_a_damaged_description_says_which_file_and_what_to_do(registry: Registry, tmp_path: Path) -> None:
    add_version(str(prefix(tmp_path / "ovs")), registry)
    (registry.directory_of("ovs") / VERSION_FILE).write_text('{"name": "ovs"')
    with pytest.raises(TestbedError, match=r"ovs/version.json cannot be read .*: remove .*/ovs, and add the version"):
        registry.all()
    registry.remove("ovs")
    assert registry.all() == []


def test_the_checksum_sees_content_mode_links_and_names(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("a")
    link.symlink_to("file")
    seen = [checksum([file, link], tmp_path)]
    file.write_text("b")
    seen.append(checksum([file, link], tmp_path))
    file.chmod(0o700)
    seen.append(checksum([file, link], tmp_path))
    link.unlink()
    link.symlink_to("elsewhere")
    seen.append(checksum([file, link], tmp_path))
    seen.append(checksum([file.rename(tmp_path / "g"), link], tmp_path))
    assert len(set(seen)) == len(seen)


def test_a_root_is_told_from_a_prefix(tmp_path: Path) -> None:
    staged = prefix(tmp_path / "staged" / "usr").parent
    assert not is_root(staged)
    loader = staged / "lib64" / "ld-linux-x86-64.so.2"
    loader.parent.mkdir()
    loader.symlink_to("/lib/nowhere/ld.so")
    assert is_root(staged)
    assert not is_root(Path("/"))


def test_a_root_without_vswitchd_says_what_to_unpack(tmp_path: Path) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/ld-linux-x86-64.so.2").touch()
    with pytest.raises(ConfigError, match=r"holds no Open vSwitch: no ovs-vswitchd, .*; unpack openvswitch-swi"):
        locate(str(tmp_path))


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    directory = prefix(tmp_path)
    said = "ovs-vswitchd: error while loading shared libraries: librte_eal.so.21: cannot open shared object file"
    (directory / "sbin/ovs-vswitchd").write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 127\n")
    with pytest.raises(ConfigError, match=r"ovs-vswitchd does not start: the library librte_eal\.so\.21 is missing"):
        locate(str(directory))


def test_an_installation_that_was_replaced_is_asked_for_its_version_again(tmp_path: Path) -> None:
    prefix(tmp_path / "ovs", "3.3.4")
    assert locate(str(tmp_path / "ovs")).version == "3.3.4"
    shutil.rmtree(tmp_path / "ovs")
    prefix(tmp_path / "ovs", "3.10.0")
    assert locate(str(tmp_path / "ovs")).version == "3.10.0"


def test_debians_archive_is_found_among_apts_sources() -> None:
    rows = [
        ["https://other.example/", "bookworm", "main", "$(SIGNED_BY)", "$(TRUSTED)", "Somebody"],
        ["https://deb.example/debian/", "bookworm-updates", "main", "$(SIGNED_BY)", "yes", "Debian"],
        ["https://deb.example/debian/", "bookworm", "contrib", "$(SIGNED_BY)", "yes", "Debian"],
        ["https://deb.example/debian/", "bookworm", "main", "/usr/share/keyrings/k.gpg", "$(TRUSTED)", "Debian"],
    ]
    assert debian_archives(rows) == [Archive("https://deb.example/debian/", "/usr/share/keyrings/k.gpg")]
    assert debian_archives(rows)[0].source_line("sid") == (
        "deb [signed-by=/usr/share/keyrings/k.gpg] https://deb.example/debian/ sid main\n"
    )
    assert Archive("file:///x", trusted=True).source_line("sid") == "deb [trusted=yes] file:///x sid main\n"


def test_a_directory_outside_git_and_one_that_is_not_of_ovs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is in no git tree: name one of the sources of Open vSwitch by --source"):
        find_revision(tmp_path, "HEAD", OF)
    tree = repository(tmp_path / "tree")
    subprocess.run(["git", "rm", "-q", "boot.sh"], cwd=tree, check=True)
    own = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    subprocess.run(["git", *own, "commit", "-qm", "second"], cwd=tree, check=True)
    with pytest.raises(ConfigError, match=r"'HEAD' of .* is no tree of Open vSwitch: it has no boot\.sh; name one"):
        find_revision(tree, "HEAD", OF)
    assert len(find_revision(tree / "vswitchd", "HEAD~1", OF).commit) == 40


def test_an_unknown_revision_and_a_dirty_tree_are_refused(tmp_path: Path) -> None:
    tree = repository(tmp_path / "tree")
    with pytest.raises(ConfigError, match=r"has no revision 'v9\.9': git fetch it, or write a tag, branch or commit"):
        find_revision(tree, "v9.9", OF)
    (tree / "vswitchd/ovs-vswitchd.c").write_text("changed")
    with pytest.raises(ConfigError, match=r"changes that are not committed.*\(vswitchd/ovs-vswitchd\.c\): commit or"):
        find_revision(tree, "HEAD", OF)


def test_a_bare_repository_is_a_source(tmp_path: Path) -> None:
    tree, bare = repository(tmp_path / "tree"), tmp_path / "bare.git"
    subprocess.run(["git", "clone", "-q", "--bare", tree, bare], check=True)
    found = find_revision(bare, "main", OF)
    assert found.tree == bare
    assert found.commit == find_revision(tree, "HEAD", OF).commit


def test_a_missing_compiler_and_a_build_that_fails(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = repository(tmp_path / "tree")
    monkeypatch.setattr(git_build, "find", lambda name: None if name == "cc" else f"/usr/bin/{name}")
    with pytest.raises(ConfigError, match=r"building Open vSwitch needs cc: apt-get install gcc"):
        add_version("git:HEAD", registry, source=tree)
    monkeypatch.setattr(git_build, "find", lambda name: f"/usr/bin/{name}")
    with pytest.raises(TestbedError, match=r"boot\.sh of Open vSwitch failed; it says: planted"):
        add_version("git:HEAD", registry, source=tree)
    assert registry.all() == []
    assert not list(registry.directory.glob(".partial-*"))
    assert subprocess.run(["git", "status", "--porcelain"], cwd=tree, check=True, capture_output=True).stdout == b""


def test_a_check_of_make_says_why_it_failed(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of Open vSwitch speak on standard output, such as that a file of git is not in EXTRA_DIST."""
    tree = buildable(tmp_path / "tree")
    monkeypatch.setattr(git_build, "find", lambda name: None if name == "ccache" else f"/usr/bin/{name}")
    commit(tree, "unlisted", broken="in git but not the distribution: x.c\n")
    with pytest.raises(TestbedError, match=r"make of Open vSwitch failed; it says: in git but not .*: x\.c\nmake"):
        add_version("git:HEAD", registry, source=tree)


def test_places_of_the_command_line() -> None:
    own, named = parse_version_options(["/opt/a=b", "old=debian:bullseye", "new=/opt/x=y"])
    assert own == "/opt/a=b"
    assert named == (NamedOvs("old", "debian:bullseye"), NamedOvs("new", "/opt/x=y"))
    for given, message in (
        (["/a", "/b"], r"^--nfv-ovs: '/a' and '/b' are both given as the testbed's own OVS: write NAME=WHERE"),
        (["a=/x", "a=/y"], r"^--nfv-ovs: 'a' is given twice"),
        (["a="], r"^--nfv-ovs: 'a=' says no place: write a=/opt/ovs-3\.3\.4"),
    ):
        with pytest.raises(ConfigError, match=message):
            parse_version_options(given)


def test_a_place_is_a_kept_version_a_path_or_the_installed_one(registry: Registry, tmp_path: Path) -> None:
    kept = add_version(str(prefix(tmp_path / "ovs")), registry)[0]
    assert resolve_version(NamedOvs("n", "ovs"), registry).prefix == kept.place
    assert resolve_version(NamedOvs("n", "ovs"), registry).checksum == kept.checksum
    assert resolve_version(NamedOvs("n", str(tmp_path)), registry).prefix == str(tmp_path)
    assert resolve_version(NamedOvs("n", "installed"), registry).prefix is None
    with pytest.raises(ConfigError, match=r"no version is kept as 'debian:sid' \(kept: ovs\)"):
        resolve_version(NamedOvs("n", "debian:sid"), registry)


def test_the_command_line_is_stronger_than_the_testbed_file(registry: Registry, tmp_path: Path) -> None:
    kept = add_version(str(prefix(tmp_path / "ovs")), registry)[0]
    file = OvsSpec(prefix="/file", versions=(NamedOvs("old", "/file/old"), NamedOvs("other", "/file/other")))
    told = resolve_versions(file, ["ovs", "old=/given"], None)
    assert told.prefix == kept.place
    assert [(each.name, each.prefix) for each in told.versions] == [
        ("old", "/given"),
        ("other", "/file/other"),
        ("ovs", kept.place),
    ]
    assert resolve_versions(file, (), None).prefix == "/file"
    assert resolve_versions(file, ["installed"], None).prefix is None


def test_a_version_of_another_datapath_is_the_testbeds_own_dut(registry: Registry, tmp_path: Path) -> None:
    add_version(str(toy_testpmd.prefix(tmp_path / "kept")), registry, datapath="testpmd")
    told = resolve_versions(OvsSpec(prefix="/file"), ["kept"], None)
    assert (told.datapath, told.prefix) == ("testpmd", str(tmp_path / "kept"))
    assert ovs_for_dut(told, Dut("testpmd")).prefix == told.prefix
    assert ovs_for_dut(told, Dut("dpdk")).prefix is None, "an Open vSwitch is the installed one then"
    assert ovs_for_dut(OvsSpec(prefix="/own"), Dut("testpmd")).prefix is None


@pytest.mark.parametrize(
    ("dut", "datapath", "message"),
    [
        (Dut("testpmd", version="v"), "ovs", "'v' is a version of Open vSwitch, and the DUT is 'testpmd'"),
        (Dut(version="v"), "testpmd", "'v' is a version of testpmd, and the DUT is 'dpdk'"),
        (Dut("acme:wire", version="v"), "testpmd", "'v' is a version of testpmd, and the DUT is 'acme:wire'"),
    ],
)
def test_a_version_of_another_datapath_is_refused_for_a_dut(dut: Dut, datapath: str, message: str) -> None:
    ovs = OvsSpec(versions=(NamedOvs("v", "/kept", "/kept", datapath=datapath), NamedOvs("i", "installed")))
    with pytest.raises(UnavailableError, match=message):
        ovs_for_dut(ovs, dut)
    assert ovs_for_dut(ovs, dataclasses.replace(dut, version="i")).prefix is None, "an installed one is of any"


def test_a_dut_names_a_version_of_the_testbed() -> None:
    ovs = OvsSpec(prefix="/own", versions=(NamedOvs("old", "debian:bullseye", "/kept/old"),))
    assert ovs_for_dut(ovs, Dut()).prefix == "/own"
    assert ovs_for_dut(ovs, Dut(version="old")).prefix == "/kept/old"
    with pytest.raises(UnavailableError, match=r"is called 'new' \(named: old\): give --nfv-ovs new=WHERE, or 'ovs: "):
        ovs_for_dut(ovs, Dut(version="new"))
    with pytest.raises(UnavailableError, match=r"the system's, which has one version, not 'old'"):
        ovs_for_dut(dataclasses.replace(ovs, instance="system"), Dut(version="old"))


def test_a_testbed_file_names_versions() -> None:
    text = "schema: 1\nname: x\novs: {old: 'debian:bullseye', new: /opt/ovs-3.3.4, here: ./built}\n"
    read, _ = parse_testbed(text, "/lab/testbed.yaml", cores=4)
    assert [(each.name, each.where) for each in read.ovs.versions] == [
        ("old", "debian:bullseye"),
        ("new", "/opt/ovs-3.3.4"),
        ("here", "/lab/built"),
    ]
    assert parse_testbed(yaml_of_testbed(read), "/lab/testbed.yaml", cores=4)[0] == read


def test_the_commands_say_what_they_did(registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = prefix(tmp_path / "ovs", dpdk="no more")
    assert main(["ovs", "list"]) == 0
    assert main(["ovs", "add", str(directory)]) == 0
    assert main(["ovs", "add", str(directory)]) == 0
    assert main(["ovs", "list"]) == 0
    assert main(["ovs", "remove", "ovs"]) == 0
    assert main(["ovs", "remove", "ovs"]) == 1
    printed = capsys.readouterr()
    none, added, again, listed, removed = printed.out.splitlines()
    assert none == "no version is kept: add one by `nfvperf ovs add debian:bookworm`"
    assert added.startswith(f"added ovs: OVS 3.3.4, without DPDK, from prefix, in {directory}, sha256 ")
    assert again == f"there already: {listed}"
    assert added == f"added {listed}"
    assert removed == "removed ovs"
    assert "nfvperf: no version is kept as 'ovs' (kept: none)" in printed.err


def test_revisions_get_a_prefix_each_and_are_configured_once(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = buildable(tmp_path / "tree")
    monkeypatch.setattr(git_build, "find", lambda name: None if name == "ccache" else f"/usr/bin/{name}")
    new = add_version("git:HEAD", registry, source=tree, name="new")[0]
    old = add_version("git:HEAD~1", registry, source=tree)[0]
    assert (old.version, new.version) == ("3.3.0", "3.4.0")
    assert old.origin == f"git:{find_revision(tree, 'HEAD~1', OF).commit}"
    assert old.name == old.origin[: len("git:") + 12], "HEAD~1 is no name"
    assert locate(old.place).vswitchd == registry.directory_of(old.name) / "prefix/sbin/ovs-vswitchd"
    assert dict(old.build)["configure"] == "--prefix=/nfvperf-ovs --with-dpdk=shared CC=cc CFLAGS=-O2 -g"
    (workshop,) = (registry.directory.parent / "ovs-builds").iterdir()
    assert (workshop / "tree/boot.log").read_text() == "booted\n"
    assert len((workshop / "build/configured.log").read_text().splitlines()) == 1
    assert (workshop / "build/made.log").read_text() == "built\nbuilt\n"
    assert not add_version("git:HEAD", registry, source=tree, name="new")[1]
    assert subprocess.run(["git", "status", "--porcelain"], cwd=tree, check=True, capture_output=True).stdout == b""


def test_the_repository_of_a_hook_is_left_alone(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps: build with what git names to hooks, aliases and `git -c`. Verify: no git of ours goes there."""
    tree, mine = buildable(tmp_path / "tree"), repository(tmp_path / "mine")
    monkeypatch.setattr(git_build, "find", lambda name: None if name == "ccache" else f"/usr/bin/{name}")
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    told = {"GIT_DIR": mine / ".git", "GIT_WORK_TREE": mine, "GIT_INDEX_FILE": mine / ".git/index", "GIT_PREFIX": "x/"}
    told |= {"GIT_OBJECT_DIRECTORY": mine / ".git/objects", "GIT_CONFIG_PARAMETERS": f"'core.worktree={mine}'"}
    told |= {"GIT_CONFIG_COUNT": 2, "GIT_CONFIG_KEY_0": "core.worktree", "GIT_CONFIG_VALUE_0": mine}
    told |= {"GIT_CONFIG_KEY_1": "safe.directory", "GIT_CONFIG_VALUE_1": "/x", "GIT_SSH_COMMAND": "ssh -p 1"}
    for name, value in told.items():
        monkeypatch.setenv(name, str(value))

    assert add_version("git:HEAD~1", registry, source=tree, name="old")[0].version == "3.3.0"

    assert {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()} == before
    assert {name: value for name, value in plain_environment().items() if name in told} == {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "/x",
        "GIT_SSH_COMMAND": "ssh -p 1",
    }


def test_later_commits_of_a_shallow_clone_are_built(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_build, "find", lambda name: None if name == "ccache" else f"/usr/bin/{name}")
    tree, clone = buildable(tmp_path / "tree"), tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{tree}", clone], check=True)
    with pytest.raises(
        ConfigError, match=rf"the shallow clone {clone} has no revision 'HEAD~1': git fetch --unshallow, or"
    ):
        find_revision(clone, "HEAD~1", OF)
    assert add_version("git:HEAD", registry, source=clone, name="first")[0].version == "3.4.0"
    commit(tree, "later", version="3.5.0\n")
    subprocess.run(["git", "fetch", "-q", "--depth", "1", "origin", "HEAD:later"], cwd=clone, check=True)
    assert add_version("git:later", registry, source=clone)[0].version == "3.5.0"


def test_what_a_partial_clone_lacks_is_fetched_from_its_remote(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps: add an older version of a clone without its files; then another, when the remote is gone too."""
    monkeypatch.setattr(git_build, "find", lambda name: None if name == "ccache" else f"/usr/bin/{name}")
    tree, clone = buildable(tmp_path / "tree"), tmp_path / "clone"
    for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        subprocess.run(["git", "config", setting, "true"], cwd=tree, check=True)
    commit(tree, "later", version="3.5.0\n")
    commit(tree, "last", version="3.6.0\n")
    subprocess.run(["git", "clone", "-q", "--filter=blob:none", f"file://{tree}", clone], check=True)
    assert add_version("git:HEAD~1", registry, source=clone)[0].version == "3.5.0"
    tree.rename(tmp_path / "moved")
    with pytest.raises(ConfigError, match=rf"cannot be taken from {clone}, so it was not built: "):
        add_version("git:HEAD~2", registry, source=clone)


def test_workshops_of_trees_that_are_gone_are_removed(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps: build from two trees; remove one tree. Verify: its workshop goes when nobody builds, the other stays."""
    monkeypatch.setattr(git_build, "find", lambda name: None if name == "ccache" else f"/usr/bin/{name}")
    workshops = registry.directory.parent / "ovs-builds"
    gone, stays = buildable(tmp_path / "gone"), buildable(tmp_path / "stays")
    add_version("git:HEAD", registry, source=gone, name="gone")
    (forsaken,) = workshops.iterdir()
    add_version("git:HEAD", registry, source=stays, name="stays")
    (workshops / "of-nobody-knows-what").mkdir()
    assert remove_orphaned_workshops(registry) == []

    shutil.rmtree(gone)
    with registry.making("another"):
        assert remove_orphaned_workshops(registry) == [
            f"left the workshop of {gone}, which is gone: a version is being added"
        ]
    assert forsaken.is_dir()
    (workshops / ".going-killed" / "tree").mkdir(parents=True)
    assert main(["ovs", "add", "git:HEAD", "--source", str(stays), "--name", "stays"]) == 0
    assert f"removed the workshop {forsaken} of {gone}, which is gone" in capsys.readouterr().out.splitlines()
    forsaken.joinpath("tree/.git").mkdir(parents=True)
    (forsaken / "tree/.git/config").write_text(f'[remote "origin"]\n\turl = {gone}\n')
    monkeypatch.setattr(reaper, "reap", lambda *, also_kept: reaper.ReapResult((), (), ()))
    assert main(["clean"]) == 0
    assert capsys.readouterr().out == f"removed the workshop {forsaken} of {gone}, which is gone\n"
    assert main(["clean"]) == 0
    assert capsys.readouterr().out == "nothing to clean\n"
    left = {path.name for path in workshops.iterdir()}
    assert len(left) == 2
    assert "of-nobody-knows-what" in left
    assert locate(registry.find("gone").place).vswitchd.is_file(), "what was installed from it is still used"
    assert remove_orphaned_workshops(registry) == []


def test_a_branch_that_went_on_is_another_version(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = buildable(tmp_path / "tree")
    monkeypatch.setattr(git_build, "find", lambda name: None if name == "ccache" else f"/usr/bin/{name}")
    add_version("git:HEAD~1", registry, source=tree, name="tip", dpdk=False)
    with pytest.raises(
        ConfigError, match=r"'tip' is the name of another version, ovs git:[0-9a-f]{40} in .*tip/prefix: "
    ):
        add_version("git:HEAD", registry, source=tree, name="tip", dpdk=False)
