"""A datapath built from a git tree at a revision.

The user's tree is only read. A workshop below ``~/.cache/nfvperf/ovs-builds/<key>`` keeps ``tree`` (which shares its
objects), ``build`` (out of tree) and ``configured`` (the options of a successful configure). So the next revision
compiles only its changes (by ccache, if installed). Each revision is installed to a prefix of its own.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_nfvperf.adapters.process.process import completed, describe_exit, run
from pytest_nfvperf.adapters.process.programs import find, install_hint
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.ports.datapath import DatapathVersions

_GIT_DEADLINE_S = 120.0
_QUOTED_LINES = 15
_SPEAK_ON_STDOUT = ("make", "meson setup", "ninja")


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit of a datapath's tree. ``tree``: its top, or a bare repository; ``commit``: the whole id."""

    tree: Path
    commit: str


def find_revision(source: Path, revision: str, of: DatapathVersions) -> Revision:
    """Resolve a revision to a commit.

    Raises:
        ConfigError: no git tree of this datapath, no such revision, or uncommitted changes that a build would lack.
    """
    if not of.sources:
        raise ConfigError(f"{of.name} cannot be built from a git tree: name a prefix or root of it")
    _check_tools(("git",), of)
    top, bare = _top(source, of)
    try:
        commit = git(top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except TestbedError as error:
        what, fetch = ("shallow clone", "--unshallow") if shallow_commits(top) else ("tree", "it")
        raise ConfigError(
            f"the {what} {top} has no revision {revision!r}: git fetch {fetch}, or write a tag, branch or commit of it"
        ) from error
    missing = [file for file in of.sources if not git(top, "ls-tree", "--name-only", commit, file)]
    if missing:
        raise ConfigError(
            f"{revision!r} of {top} is no tree of {of.name}: it has no {' and no '.join(missing)}; name one by --source"
        )
    is_checked_out = not bare and commit == git(top, "rev-parse", "HEAD")
    changed = git(top, "status", "--porcelain", "--untracked-files=no") if is_checked_out else ""
    if changed:
        raise ConfigError(
            f"{top} has changes that are not committed, which a build of {revision!r} would not have "
            f"({changed.split()[-1]}): commit or stash them"
        )
    return Revision(top, commit)


def _top(source: Path, of: DatapathVersions) -> tuple[Path, bool]:
    """The top of a directory's tree, and whether it is bare; the top of a bare one is the repository."""
    try:
        if git(source, "rev-parse", "--is-bare-repository") == "true":
            return Path(git(source, "rev-parse", "--absolute-git-dir")), True
        return Path(git(source, "rev-parse", "--show-toplevel")), False
    except TestbedError as error:
        raise ConfigError(
            f"{source} is in no git tree: name one of the sources of {of.name} by --source ({_last_lines(error)})"
        ) from error


def shallow_commits(tree: Path) -> frozenset[str]:
    """Commits of a shallow clone whose parents it lacks; empty for other trees."""
    file = tree / git(tree, "rev-parse", "--git-path", "shallow")
    return frozenset(file.read_text(encoding="ascii").split()) if file.is_file() else frozenset()


def build(
    revision: Revision, of: DatapathVersions, workshops: Path, destination: Path, *, dpdk: bool
) -> tuple[Path, tuple[tuple[str, str], ...]]:
    """Compile a revision and install it; the caller holds the lock.

    Args:
        revision: of the user's tree.
        of: knows how to build it.
        workshops: where trees and build directories are kept.
        destination: an empty directory; gets the prefix.
        dpdk: build with DPDK.

    Returns:
        The prefix, and the options of the build by name.

    Raises:
        ConfigError: a compiler or a library is missing; says what to install.
        TestbedError: it does not build, with the end of what the program said.
    """
    options = of.options(dpdk=dpdk)
    _check_tools(("git", *of.tools), of)
    key = hashlib.sha256("\0".join([str(revision.tree), *options]).encode()).hexdigest()[:16]
    workshop = workshops / key
    _check_out(revision, workshop / "tree")
    run_step = partial(_run_step, of)
    if not (workshop / "configured").is_file():
        shutil.rmtree(workshop / "build", ignore_errors=True)
        (workshop / "build").mkdir()
        of.configure(run_step, workshop / "tree", workshop / "build", options)
        (workshop / "configured").write_text("\n".join(options) + "\n", encoding="utf-8")
    prefix = destination / "prefix"
    of.make(run_step, workshop / "build", prefix)
    compiled_by = run(["cc", "--version"]).partition("\n")[0]
    return prefix, (("configure", " ".join(options)), ("compiler", compiled_by))


def _check_tools(names: Sequence[str], of: DatapathVersions) -> None:
    missing = [name for name in names if find(name) is None]
    if missing:
        raise ConfigError(f"building {of.name} needs {', '.join(missing)}: {install_hint(*missing)}")


def _check_out(revision: Revision, tree: Path) -> None:
    """Check the commit out into a tree that reads objects from the user's, which may be a shallow clone.

    Nothing is fetched, but for what a partial clone lacks: from its remote.
    """
    source = revision.tree
    tree.mkdir(parents=True, exist_ok=True)
    objects = git(source, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    git(tree, "init", "--quiet", f"--object-format={git(source, 'rev-parse', '--show-object-format')}")
    git(tree, "config", "remote.origin.url", str(source))
    url, promisor = (git(source, "config", "--default", "", f"remote.origin.{key}") for key in ("url", "promisor"))
    remote = ["-c", f"remote.lacking.url={url}", "-c", f"remote.lacking.promisor={promisor}"]
    (tree / ".git/objects/info/alternates").write_text(f"{objects}\n", encoding="utf-8")
    (tree / ".git/index.lock").unlink(missing_ok=True)  # left by a killed build: nobody else works here
    try:
        git(tree, *remote, "checkout", "--quiet", "--force", "--detach", revision.commit)
    except TestbedError as error:
        raise ConfigError(
            f"commit {revision.commit[:12]} cannot be taken from {source}, so it was not built: {_last_lines(error)}"
        ) from error


def _run_step(of: DatapathVersions, what: str, argv: Sequence[str], deadline_s: float) -> None:
    try:
        done = completed(argv, deadline_s)
    except subprocess.TimeoutExpired as error:
        raise TestbedError(f"{what} of {of.name} did not end within {deadline_s:g} s") from error
    if done.returncode != 0:
        # Meson and ninja speak on standard output; so do checks of Open vSwitch's make, such as that each file of git
        # is in EXTRA_DIST.
        said = [done.stdout, done.stderr] if what in _SPEAK_ON_STDOUT else [done.stderr]
        lines = [line for text in said for line in text.strip().splitlines()[-_QUOTED_LINES:]]
        reason = "\n".join(lines) or describe_exit(done.returncode)
        raise TestbedError(f"{what} of {of.name} failed; it says: {reason}")


def _last_lines(error: TestbedError) -> str:
    lines = error.evidence.get("stderr", "").strip().splitlines()
    return "\n".join(lines[-_QUOTED_LINES:]) or error.message


def git(tree: Path, *arguments: str) -> str:
    """What git says of a tree; TestbedError if it fails. It reads: ``status`` does not refresh the user's index."""
    return run(["git", "--no-optional-locks", "-C", str(tree), *arguments], deadline_s=_GIT_DEADLINE_S).strip()
