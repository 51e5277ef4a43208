"""The first process of a fresh root's namespaces: lays the root out in memory, then runs each step in it.

``python3 -m tests.fresh.inside RELEASE WHAT ARCHIVE [BARE]``, by tests.fresh only. WHAT: of "some", "whole" and
"tutorial". As the first process it also reaps what others leave behind: tests look for processes that should be gone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.fresh.plan import Step, steps, tutorial_steps
from tests.fresh.roots import cache_directory

ROOT = Path("/mnt")
"""Where the new root is mounted, in this namespace only."""
TREE = "root/nfvperf"
PROJECT = "root/datapath"
"""The empty directory beside the clone, in which the tutorial begins."""
_SIZE = "size=8g"
_COPIED = ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")
"""How this machine reaches its package registries, where it has them."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OURS = ("PYTHON", "VIRTUAL_ENV", "PYENV", "XDG_", "TMPDIR", "OLDPWD", "PWD")
_JUNIT = "tmp/fresh-junit.xml"


def main(words: Sequence[str]) -> int:
    """Run the steps; the exit status is 0 when all passed."""
    release, asked, archive, *bare = words
    what = asked.split(",")
    _timed(release, "lay the root out", lambda: _lay_out(release, Path(archive)))
    passed = []
    if what != ["tutorial"]:
        if not _timed(release, "make setup", lambda: _inside(["make", "setup"]) == 0):
            return 1
        passed = [_timed(release, step.name, partial(_passes, step)) for step in steps(whole="whole" in what)]
    if "tutorial" in what:
        passed.append(_timed(release, "the tutorial", lambda: _tutorial_passes(release, Path(bare[0]))))
    return 0 if all(passed) else 1


def _tutorial_passes(release: str, archive: Path) -> bool:
    """Run the tutorial in a root that has nothing but a clone of this tree."""
    _checked("umount", "--recursive", "--lazy", str(ROOT))
    _lay_out(release, archive)
    (ROOT / PROJECT).mkdir()
    # all(): a command needs those before it
    written = all(_timed(release, step.name, partial(_passes, step, PROJECT)) for step in tutorial_steps())
    return written and (ROOT / PROJECT / "reports/latest/report.html").is_file()


def _lay_out(release: str, archive: Path) -> bool:
    """The root, this machine's /proc, /sys and /dev in it, a clone of this tree, and what was downloaded before."""
    _checked("mount", "-t", "tmpfs", "-o", _SIZE, "nfvperf-fresh", str(ROOT))
    _checked("tar", "--extract", "--numeric-owner", f"--file={archive}", f"--directory={ROOT}")
    for name in ("proc", "sys", "dev"):
        _checked("mount", "--rbind", f"/{name}", str(ROOT / name))
    _checked("mount", "-t", "tmpfs", "nfvperf-fresh", str(ROOT / "run"))
    for name in filter(lambda name: (Path("/") / name).is_file(), _COPIED):
        shutil.copy(Path("/") / name, ROOT / name)
    _bind(cache_directory() / f"{release}-apt", ROOT / "var/cache/apt/archives")
    _bind(cache_directory() / "pip", ROOT / "root/.cache/pip")
    for directory in map(Path, os.environ.get("PIP_FIND_LINKS", "").split()):
        if directory.is_dir():
            _bind(directory, ROOT / directory.relative_to("/"))
    _checked("git", "clone", "--quiet", f"file://{Path.cwd()}", str(ROOT / TREE))
    return True


def _bind(source: Path, target: Path) -> None:
    source.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    _checked("mount", "--bind", str(source), str(target))


def _passes(step: Step, directory: str = TREE) -> bool:
    """True when it passed and something ran; says how many did, where the step counts."""
    if not step.counts:
        status = _inside(step.command, directory)
        print(f"   exit status {status}", flush=True)
        return status in step.passes
    report = ROOT / _JUNIT
    report.unlink(missing_ok=True)
    status = _inside([*step.command, f"--junitxml=/{_JUNIT}"])
    if not report.exists():
        return False
    ran, said = counted(report)
    print(f"   {said}", flush=True)
    return status in step.passes and ran > 0


def counted(report: Path) -> tuple[int, str]:
    """How many tests ran by a JUnit file, and in words also how many were skipped or failed."""
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    total, skipped, failures, errors = (
        sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "skipped", "failures", "errors")
    )
    return total - skipped, f"{total - skipped} tests ran, {skipped} skipped; {failures} failed, {errors} errors"


def _timed(release: str, name: str, step: Callable[[], bool]) -> bool:
    print(f"-- {release}: {name}", flush=True)
    started = time.monotonic()
    passed = step()
    took = time.monotonic() - started
    print(f"-- {release}: {name}: {'passed' if passed else 'FAILED'} in {took:.0f} s", flush=True)
    return passed


def _inside(command: Sequence[str], directory: str = TREE) -> int:
    """Run it in the root, in a directory there; its exit status. What ended below it is reaped, too."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    env |= {"PATH": _PATH, "HOME": "/root"}
    chroot = ["chroot", str(ROOT), "env", "-C", f"/{directory}", *command]
    child = subprocess.Popen(chroot, env=env, stdin=subprocess.DEVNULL)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode


def _checked(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
