"""Machines that ssh reaches: each a namespace of this one with an sshd in it. Tests share them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import ManagedProcess, run, spawn, wait_until
from pytest_nfvperf.adapters.process.programs import find, not_installed
from pytest_nfvperf.model.errors import UnavailableError

_PRIVILEGES = Path("/run/sshd")
"""sshd does not start without it; Debian's service makes it."""

_SSHD = """
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PidFile none
"""
_SSH = """
Host {name}
HostName {address}
User root
IdentityFile {folder}/user
BatchMode yes
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""


@dataclass(frozen=True)
class SshMachine:
    """``namespace``: its network. ``config``: for ``ssh -F``, which knows it by its name. ``sshd``: listens there."""

    name: str
    namespace: LiveNamespace
    config: Path
    sshd: ManagedProcess


@dataclass(frozen=True)
class Reachable:
    """``home``: the namespace from which the machines can be reached."""

    home: LiveNamespace
    machines: Mapping[str, SshMachine]


def needed_sshd() -> str:
    """The path of sshd; UnavailableError, with what to install, where there is none."""
    found = find("sshd")
    if found is None:
        raise UnavailableError(not_installed("sshd"))
    return found


@contextmanager
def ssh_machines(
    journal: Journal, folder: Path, names: Sequence[str], environments: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[Reachable]:
    """Machines that are gone afterwards.

    Args:
        journal: notes what is made.
        folder: for keys, configuration and logs.
        names: of the machines.
        environments: of what ssh starts there, by machine.
    """
    sshd = needed_sshd()
    for key in ("host", "user"):
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key])
    for name in names:
        variables = " ".join(f"{key}={value}" for key, value in (environments or {}).get(name, {}).items())
        settings = _SSHD.format(folder=folder) + (f"SetEnv {variables}\n" if variables else "")
        (folder / f"{name}.sshd").write_text(settings)
    with ExitStack() as stack:
        if not _PRIVILEGES.exists():
            _PRIVILEGES.mkdir(mode=0o755)
            stack.callback(_PRIVILEGES.rmdir)
        home = stack.enter_context(closing(LiveNamespace(journal, "home")))
        found = {name: _machine(stack, journal, home, folder, name, sshd, n) for n, name in enumerate(names)}
        yield Reachable(home, found)


def _machine(
    stack: ExitStack, journal: Journal, home: LiveNamespace, folder: Path, name: str, sshd: str, number: int
) -> SshMachine:
    """A namespace with an address and an sshd, joined to ``home``."""
    near, far = f"192.0.2.{4 * number + 1}", f"192.0.2.{4 * number + 2}"
    config = folder / f"{name}.ssh"
    config.write_text(_SSH.format(folder=folder, name=name, address=far))
    machine = stack.enter_context(closing(LiveNamespace(journal, name)))
    home.run(["ip", "link", "add", name, "type", "veth", "peer", "name", "home", "netns", machine.name])
    for host, link, address in ((home, name, near), (machine, "home", far)):
        host.run(["ip", "address", "add", f"{address}/30", "dev", link])
        host.run(["ip", "link", "set", link, "up"])
    command = [sshd, "-D", "-e", "-f", str(folder / f"{name}.sshd")]
    process = spawn(journal, f"sshd of {name}", command, log=folder / f"{name}.log", netns=machine.name)
    stack.callback(process.stop)
    reached = ["nsenter", f"--net={home.path}", "ssh", "-F", str(config), name, "true"]
    wait_until(
        lambda: subprocess.run(reached, capture_output=True, check=False).returncode == 0 or None,
        f"sshd of {name}",
        10.0,
        last_seen=process.log_tail,
    )
    return SshMachine(name, machine, config, process)
