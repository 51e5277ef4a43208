"""Stand-ins for Open vSwitch: prefixes whose programs only say what they are, and trees that are built at once."""

from __future__ import annotations

import subprocess
from pathlib import Path


def prefix(root: Path, version: str = "3.3.4", dpdk: str = "DPDK 23.11.1") -> Path:
    """A prefix whose programs only say what they are."""
    for directory in ("sbin", "bin", "share/openvswitch"):
        (root / directory).mkdir(parents=True)
    for name in ("sbin/ovs-vswitchd", "sbin/ovsdb-server", "bin/ovsdb-tool", "bin/ovs-ofctl"):
        program = root / name
        program.write_text(f"#!/bin/sh\necho 'ovs-vswitchd (Open vSwitch) {version}'\necho '{dpdk}'\n")
        program.chmod(0o755)
    (root / "share/openvswitch/vswitch.ovsschema").write_text("{}")
    return root


def repository(root: Path) -> Path:
    """A git tree that has the files by which one of Open vSwitch is known, and one commit."""
    (root / "vswitchd").mkdir(parents=True)
    (root / "boot.sh").write_text("#!/bin/sh\necho planted >&2\nexit 3\n")
    (root / "boot.sh").chmod(0o755)
    (root / "vswitchd/ovs-vswitchd.c").write_text("int main(void) { return 0; }\n")
    own = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", *own, *words], cwd=root, check=True)
    return root


CONFIGURE = r"""#!/bin/sh
echo "$@" >> configured.log
tree=$(dirname "$0")
cat > Makefile <<END
all:
	test ! -e $tree/broken || { cat $tree/broken; exit 1; }
	echo built >> made.log
install:
	$tree/install.sh \$(DESTDIR)/nfvperf-ovs
END
"""
INSTALL = r"""#!/bin/sh
tree=$(dirname "$0")
mkdir -p "$1/sbin" "$1/bin" "$1/share/openvswitch"
for name in sbin/ovs-vswitchd sbin/ovsdb-server bin/ovsdb-tool bin/ovs-ofctl; do
    printf '#!/bin/sh\necho "ovs-vswitchd (Open vSwitch) %s"\n' "$(cat "$tree/version")" > "$1/$name"
    chmod +x "$1/$name"
done
test ! -e "$tree/rate" || cp "$tree/rate" "$1/rate"
echo '{}' > "$1/share/openvswitch/vswitch.ovsschema"
"""


def buildable(root: Path) -> Path:
    """A tree like Open vSwitch's that is built at once: two commits, 3.3.0 and 3.4.0.

    A file ``broken`` keeps it from being built, and make says its text; a file ``rate`` is installed.
    """
    tree = repository(root)
    (tree / "boot.sh").write_text("#!/bin/sh\necho booted >> boot.log\ncp configure.in configure\nchmod +x configure\n")
    (tree / "configure.in").write_text(CONFIGURE)
    (tree / "install.sh").write_text(INSTALL)
    (tree / "install.sh").chmod(0o755)
    for version in ("3.3.0", "3.4.0"):
        commit(tree, version, version=f"{version}\n")
    return tree


def commit(tree: Path, title: str, **files: str) -> str:
    """A commit with these files changed; an empty text removes one. Returns its id."""
    for name, text in files.items():
        if text:
            (tree / name).write_text(text)
        else:
            (tree / name).unlink(missing_ok=True)
    own = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for words in (["add", "-A", "."], ["commit", "-q", "--allow-empty", "-m", title]):
        subprocess.run(["git", *own, *words], cwd=tree, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, check=True, capture_output=True, text=True)
    return head.stdout.strip()
