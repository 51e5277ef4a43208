"""Open vSwitch whose vswitchd starts late: prefixes, and rows of commits, with a planted outage of a restart.

``python -m tests.delayed_ovs DIRECTORY --ms 5 --every 10`` makes a prefix for ``--nfv-ovs slow=DIRECTORY``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

from pytest_nfvperf.adapters.ovs.installation import locate
from tests.toy_ovs import commit, repository

_SOURCE = Path(__file__).parent / "native/delayed_start.c"
_TOOLS = ("ovsdb-tool", "ovs-ofctl", "ovs-vsctl", "ovs-appctl")


def delayed_prefix(prefix: Path, ms: int, *, every: int = 1) -> Path:
    """Make a prefix of the installed Open vSwitch whose every Nth vswitchd starts so much later."""
    binaries = locate()
    for directory in ("sbin", "bin", "share"):
        (prefix / directory).mkdir(parents=True)
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", prefix / "sbin/ovs-vswitchd", _SOURCE], check=True)
    (prefix / "sbin/delay").write_text(f"{binaries.vswitchd} {ms} {every}\n")
    (prefix / "sbin/ovsdb-server").symlink_to(binaries.ovsdb_server)
    for name in _TOOLS:
        (prefix / "bin" / name).symlink_to(binaries.ofctl.with_name(name))
    shutil.copytree(binaries.schema.parent, prefix / "share/openvswitch")
    return prefix


_INSTALL = r"""#!/bin/sh
tree=$(dirname "$0")
cp -R "$tree/delayed" "$1"
read -r ms commit < "$tree/ms"
printf '%s %s 1\n' "$(cut -d' ' -f1 "$1/sbin/delay")" "$ms" > "$1/sbin/delay"
echo "$commit" >> "$1/sbin/ovs-vswitchd" # so that each version has a checksum of its own
"""


def delayed_tree(root: Path, delays_ms: list[int]) -> tuple[Path, list[str]]:
    """Make a git tree that is built at once, with a commit for each delay; returns it and the commits' ids.

    What each installs is the installed Open vSwitch, whose vswitchd starts that much later.
    """
    tree = repository(root)
    delayed_prefix(tree / "delayed", 0)
    (tree / "boot.sh").write_text("#!/bin/sh\ncp configure.in configure\nchmod +x configure\n")
    (tree / "configure.in").write_text(_CONFIGURE)
    (tree / "install.sh").write_text(_INSTALL)
    (tree / "install.sh").chmod(0o755)
    return tree, [commit(tree, f"commit {number}", ms=f"{ms} {number}\n") for number, ms in enumerate(delays_ms)]


_CONFIGURE = r"""#!/bin/sh
tree=$(dirname "$0")
cat > Makefile <<END
all:
	true
install:
	$tree/install.sh \$(DESTDIR)/nfvperf-ovs
END
"""


def main() -> None:
    """Make a prefix."""
    parser = argparse.ArgumentParser(prog="python -m tests.delayed_ovs", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ms", type=int, required=True)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    print(delayed_prefix(given.directory, given.ms, every=given.every))


if __name__ == "__main__":
    main()
