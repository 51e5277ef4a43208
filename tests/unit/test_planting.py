"""A planted change in a row of commits: where it comes in, that the rest follows, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from toy_ovs import commit, repository

from pytest_nfvperf.features.bisect.candidates import commit_candidates
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from tests.planting import PATCHES, plant


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = repository(tmp_path / "tree")
    for number in range(4):
        commit(made, f"commit {number}", **{f"file{number}": str(number)})
    return made


def git(tree: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", tree, *words], check=True, capture_output=True, text=True).stdout


def patch_of(tree: Path, name: str, **files: str) -> Path:
    """A commit with these files as a patch; the tree is as it was."""
    commit(tree, "planted: a change", **files)
    path = tree.parent / f"{name}.patch"
    path.write_text(git(tree, "format-patch", "-1", "--stdout"))
    git(tree, "reset", "-q", "--hard", "HEAD~1")
    return path


def test_the_change_comes_in_behind_the_chosen_commit_and_the_rest_follows(tree: Path, tmp_path: Path) -> None:
    patch = patch_of(tree, "slow", rate="3e6")
    made = plant(tree, tmp_path / "planted", patch, after="HEAD~2", until="HEAD")
    row = commit_candidates(made.tree, git(tree, "rev-parse", "HEAD~3").strip(), "slow")
    assert [each.title for each in row] == ["commit 0", "commit 1", "planted: a change", "commit 2", "commit 3"]
    assert row[2].commit is not None
    assert row[2].commit.commit == made.culprit
    assert made.commits == 3
    assert [bool(git(made.tree, "ls-tree", each.name, "rate")) for each in row] == [False, False, True, True, True]
    assert git(tree, "status", "--porcelain") == ""


def test_another_patch_goes_into_the_same_clone(tree: Path, tmp_path: Path) -> None:
    slow, crash = patch_of(tree, "slow", rate="3e6"), patch_of(tree, "crash", crash="yes")
    plant(tree, tmp_path / "planted", slow, after="origin/main~2", until="origin/main")
    made = plant(tree, tmp_path / "planted", crash, after="origin/main~1", until="origin/main")
    assert (made.branch, made.commits) == ("crash", 2)
    assert git(made.tree, "diff", "--name-only", "slow", "crash", "--").split() == ["crash", "rate"]


def test_what_cannot_be_planted_is_said(tree: Path, tmp_path: Path) -> None:
    patch = patch_of(tree, "late", file3="another")
    with pytest.raises(ConfigError, match="is there already, and is no clone: name another directory"):
        plant(tree, tmp_path, patch, after="HEAD~1", until="HEAD")
    with pytest.raises(ConfigError, match="--after HEAD does not lead to --until HEAD~1"):
        plant(tree, tmp_path / "a", patch, after="HEAD", until="HEAD~1")
    with pytest.raises(TestbedError, match=r"(?s)git .* am .*exited with status 128.*file3"):
        plant(tree, tmp_path / "b", patch, after="HEAD~1", until="HEAD")


@pytest.mark.parametrize("path", sorted(PATCHES.glob("*.patch")), ids=lambda path: path.stem)
def test_each_patch_says_what_it_does_and_costs(path: Path) -> None:
    said = path.read_text().partition("\n---\n")[0]
    assert "Subject: [PATCH] planted: " in said
    assert "\nTest data of nfvperf, no change of Open vSwitch's: " in said
    assert "\nWhat it does: " in said
    assert "\nWhat it costs: " in said
