"""Stand-ins for testpmd: prefixes whose program only says its version, and trees that meson builds at once."""

from __future__ import annotations

import subprocess
from pathlib import Path

from toy_ovs import commit

SOURCE = """#include <stdio.h>
int main(void) { fputs("EAL: RTE Version: 'DPDK %s'\\n", stderr); return 1; }
"""


def prefix(root: Path, version: str = "23.11.1") -> Path:
    """A prefix whose program only says what it is."""
    program = root / "bin/dpdk-testpmd"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho \"EAL: RTE Version: 'DPDK {version}'\" >&2\nexit 1\n")
    program.chmod(0o755)
    return root


def release(tree: Path, version: str) -> str:
    """A commit that makes the tree this version; "broken" does not compile. Returns its id."""
    return commit(tree, version, **{"app/test-pmd/testpmd.c": "broken" if version == "broken" else SOURCE % version})


def buildable(root: Path) -> Path:
    """A tree like DPDK's: two commits, 22.11.0, and 23.11.0 which brought the option ``enable_apps``."""
    (root / "app/test-pmd").mkdir(parents=True)
    subprocess.run(["git", "-c", "init.defaultBranch=main", "init", "-q"], cwd=root, check=True)
    options = {name: f"option('{name}', type: 'string', value: '')\n" for name in ("platform", "tests", "enable_apps")}
    (root / "app/meson.build").write_text("executable('dpdk-testpmd', 'test-pmd/testpmd.c', build_by_default: false)\n")
    (root / "meson.build").write_text("project('toy', 'c')\nsubdir('app')\n")
    (root / "meson_options.txt").write_text(options["platform"] + options["tests"])
    release(root, "22.11.0")
    (root / "meson_options.txt").write_text("".join(options.values()))
    release(root, "23.11.0")
    return root
