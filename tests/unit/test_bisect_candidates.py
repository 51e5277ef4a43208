"""Which versions a bisection is about: lists of kept ones and prefixes, commits of a tree, and mistakes in either."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import toy_testpmd
from toy_ovs import buildable, commit, prefix

from pytest_nfvperf.features.bisect.candidates import Installer, NotUsableError, commit_candidates, listed_candidates
from pytest_nfvperf.features.versions import git_build
from pytest_nfvperf.features.versions.origins import add_version
from pytest_nfvperf.features.versions.registry import Registry
from pytest_nfvperf.model.errors import ConfigError


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(git_build, "find", lambda name: None if name == "ccache" else f"/usr/bin/{name}")
    return Registry()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """3.3.0, 3.4.0, then 3.4.1 to 3.4.3; 3.4.2 does not build."""
    made = buildable(tmp_path / "tree")
    commit(made, "first fix", version="3.4.1\n")
    commit(made, "does not build", version="3.4.2\n", broken="yes\n")
    commit(made, "builds again", version="3.4.3\n", broken="")
    return made


def git(tree: Path, *words: str) -> str:
    own = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    return subprocess.run(["git", *own, *words], cwd=tree, check=True, capture_output=True, text=True).stdout.strip()


def test_commits_are_in_order_with_their_subjects(tree: Path) -> None:
    found = commit_candidates(tree, "HEAD~3", "HEAD")

    assert [each.title for each in found] == ["3.4.0", "first fix", "does not build", "builds again"]
    assert found[0].name == git(tree, "rev-parse", "HEAD~3")[:12]


def test_a_merge_is_one_version(tree: Path) -> None:
    start = git(tree, "rev-parse", "HEAD")
    git(tree, "checkout", "-q", "-b", "feature")
    commit(tree, "on the branch", feature="1")
    git(tree, "checkout", "-q", "main")
    commit(tree, "on main", main="1")
    git(tree, "merge", "-q", "--no-ff", "-m", "merge it", "feature")

    assert [each.title for each in commit_candidates(tree, start, "HEAD")] == ["builds again", "on main", "merge it"]


def test_mistakes_about_revisions(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no revision 'v9': git fetch it"):
        commit_candidates(tree, "HEAD~1", "v9")
    with pytest.raises(ConfigError, match=r"--good HEAD and --bad main are the same commit, [0-9a-f]{12}"):
        commit_candidates(tree, "HEAD", "main")
    with pytest.raises(ConfigError, match=r"--bad HEAD~2 is older than --good HEAD: exchange them"):
        commit_candidates(tree, "HEAD", "HEAD~2")
    with pytest.raises(ConfigError, match=r"is in no git tree: name one of the sources of Open vSwitch by --source"):
        commit_candidates(tmp_path, "HEAD~1", "HEAD")
    (tree / "version").write_text("changed\n")
    with pytest.raises(ConfigError, match=r"has changes that are not committed, .*: commit or stash them"):
        commit_candidates(tree, "HEAD~1", "HEAD")


def test_branches_that_parted_are_refused(tree: Path) -> None:
    parted = git(tree, "rev-parse", "HEAD~1")
    git(tree, "checkout", "-q", "-b", "other", parted)
    commit(tree, "elsewhere", other="1")

    with pytest.raises(ConfigError, match=f"of different branches. Their common ancestor is {parted[:12]}"):
        commit_candidates(tree, "main", "other")


def test_a_shallow_clone_that_lacks_what_is_between_is_told(tree: Path, tmp_path: Path) -> None:
    """Steps: clone the last three commits; then fetch the first without what is between. Verify: neither is a range."""
    clone, first = tmp_path / "clone", git(tree, "rev-parse", "HEAD~3")
    git(tree, "tag", "first", first)
    git(tmp_path, "clone", "-q", "--depth", "3", "--no-tags", f"file://{tree}", str(clone))
    assert len(commit_candidates(clone, "HEAD~2", "HEAD")) == 3
    with pytest.raises(
        ConfigError, match=rf"the shallow clone {clone} has no revision '{first}': git fetch --unshallow, or"
    ):
        commit_candidates(clone, first, "HEAD")
    git(clone, "fetch", "-q", "--depth", "1", "origin", "tag", "first")
    with pytest.raises(
        ConfigError, match=r"the shallow clone .* lacks commits between --good first and --bad HEAD: git fetch --uns"
    ):
        commit_candidates(clone, "first", "HEAD")
    git(clone, "fetch", "-q", "--unshallow")
    assert len(commit_candidates(clone, "first", "HEAD")) == 4


def test_listed_versions_are_called_by_what_sets_them_apart(tmp_path: Path, registry: Registry) -> None:
    old, new, other = prefix(tmp_path / "ovs-3.3"), prefix(tmp_path / "ovs-3.4"), prefix(tmp_path / "b" / "ovs-3.4")
    add_version(str(old), registry, "old")

    assert [each.name for each in listed_candidates("old", str(new), [], registry)] == ["old", "ovs-3.4"]
    assert [each.name for each in listed_candidates("old", str(new), [str(other)], registry)] == [
        "old",
        str(other),
        str(new),
    ]


def test_mistakes_about_listed_versions(tmp_path: Path, registry: Registry) -> None:
    old, new = str(prefix(tmp_path / "old")), str(prefix(tmp_path / "new"))
    add_version(old, registry, "kept")

    with pytest.raises(ConfigError, match="--good and --bad are the same version"):
        listed_candidates(old, old, [], registry)
    with pytest.raises(ConfigError, match=r"is in the list twice: --versions has what lies between"):
        listed_candidates(old, new, ["kept"], registry)
    with pytest.raises(ConfigError, match=r"no version is kept as 'v9' \(kept: kept\)"):
        listed_candidates(old, "v9", [], registry)
    with pytest.raises(ConfigError, match=r"'/nowhere/ovs' is no directory: name a kept version"):
        listed_candidates(old, "/nowhere/ovs", [], registry)


def test_commits_are_built_on_demand_and_removed_at_the_end(tree: Path, registry: Registry) -> None:
    candidates = commit_candidates(tree, "HEAD~3", "HEAD")
    kept = add_version(f"git:{git(tree, 'rev-parse', 'HEAD')}", registry, "mine", source=tree, dpdk=False)[0]
    installer = Installer(registry, dpdk=False)

    built = installer.where(candidates[1])
    assert registry.find(built).version == "3.4.1"
    assert installer.where(candidates[1]) == built
    assert installer.where(candidates[3]) == "mine"
    with pytest.raises(NotUsableError, match="make of Open vSwitch failed"):
        installer.where(candidates[2])
    assert installer.remove_built(candidates) == [built]
    assert registry.all() == [kept]


BISECTING = """
import sys
from pathlib import Path
from pytest_nfvperf.features.bisect.candidates import Installer, commit_candidates
from pytest_nfvperf.features.versions.registry import Registry

tree, good, bad = sys.argv[1:]
installer = Installer(Registry(), dpdk=False)
print(installer.where(commit_candidates(Path(tree), good, bad)[1]), flush=True)
sys.stdin.read()
"""


def test_a_build_that_another_bisection_uses_stays_until_that_one_has_ended(tree: Path, registry: Registry) -> None:
    """Steps: a second process asks for the same commit; the first one ends; the second is killed. Verify: the build
    stays under the second, `ovs remove` names it, and after its death the build goes."""
    candidates = commit_candidates(tree, "HEAD~3", "HEAD")
    installer = Installer(registry, dpdk=False)
    built = installer.where(candidates[1])
    command = [sys.executable, "-c", BISECTING, str(tree), "HEAD~3", "HEAD~1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline().strip() == built

            assert installer.remove_built(candidates) == []
            with pytest.raises(ConfigError, match=rf"'{built}' is in use \(pid {other.pid}, command .*: remove it"):
                registry.remove(built)
            assert registry.find(built).version == "3.4.1"
        finally:
            other.kill()
    assert installer.remove_built(candidates) == [built]
    assert registry.all() == []


def test_what_another_process_removed_is_built_again(tree: Path, registry: Registry) -> None:
    candidates = commit_candidates(tree, "HEAD~3", "HEAD")
    first, second = Installer(registry, dpdk=False), Installer(registry, dpdk=False)
    built = first.where(candidates[1])
    assert first.remove_built(candidates) == [built]

    assert registry.hold(built) is None
    assert second.where(candidates[1]) == built
    assert first.remove_built(candidates) == []
    assert second.remove_built(candidates) == [built]


def test_a_prefix_without_open_vswitch_cannot_be_used(tmp_path: Path, registry: Registry) -> None:
    (tmp_path / "empty").mkdir()
    good, bad = prefix(tmp_path / "good"), prefix(tmp_path / "bad")
    candidates = listed_candidates(str(good), str(bad), [str(tmp_path / "empty")], registry)

    with pytest.raises(NotUsableError, match="holds no Open vSwitch"):
        Installer(registry).where(candidates[1])


def test_versions_of_another_datapath_need_its_name(tmp_path: Path, registry: Registry) -> None:
    good, bad = (toy_testpmd.prefix(tmp_path / name, name) for name in ("22.11.0", "23.11.0"))
    with pytest.raises(ConfigError, match=r"'.*/22\.11\.0' is a version of testpmd: give --datapath testpmd"):
        listed_candidates(str(good), str(bad), [], registry)
    candidates = listed_candidates(str(good), str(bad), ["installed"], registry, "testpmd")
    assert Installer(registry, datapath="testpmd").where(candidates[0]) == str(good)
    with pytest.raises(NotUsableError, match="holds no Open vSwitch"):
        Installer(registry).where(candidates[0])


def test_commits_of_testpmd_are_built_and_removed(tmp_path: Path, registry: Registry) -> None:
    tree = toy_testpmd.buildable(tmp_path / "dpdk")
    candidates = commit_candidates(tree, "HEAD~1", "HEAD", "testpmd")
    installer = Installer(registry, datapath="testpmd")
    built = [installer.where(candidate) for candidate in candidates]
    assert [(registry.find(name).version, registry.find(name).datapath) for name in built] == [
        ("22.11.0", "testpmd"),
        ("23.11.0", "testpmd"),
    ]
    assert sorted(installer.remove_built(candidates)) == sorted(built)
