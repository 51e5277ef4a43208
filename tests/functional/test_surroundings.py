"""Functional tests of a user's on a real, unfriendly machine, made in namespaces: what is not ours stays as it was."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from user_project import CONFTEST, make_project

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.net import namespaces
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace, NamespacePlan
from pytest_nfvperf.adapters.net.threads import inside_netns
from pytest_nfvperf.model.errors import TestbedError
from tests.functional.crowded_host import BRIDGES
from tests.functional.ovs_support import clean_run, needs_root
from tests.functional.stream_support import ADDRESSES_6, pair

pytestmark = needs_root

HERE = Path(__file__).parents[2]
CACHE = build.default_cache_dir()  # now: pytester gives each test another home
CPUSET = Path("/sys/fs/cgroup/cpuset")
SUITE = """
import pytest
from pytest_nfvperf import StreamSpec, bridge_chain

@pytest.mark.nfv_functional
def test_works(deploy, streams):
    live = deploy(bridge_chain(2, ends="namespace"))
    streams.run(live, StreamSpec(duration_s=0.5, omit_s=0.1))
"""
Run = Callable[[str], pytest.RunResult]


@pytest.fixture
def within(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs the user's tests at the end of a shell script that makes its surroundings: ``exec "$@"`` starts them."""
    base = Path(f"/run/nfvperf-around-{os.getpid()}")
    base.mkdir()
    monkeypatch.setenv("NFVPERF_RUN_DIR", str(base))
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE.parent))
    build.build()
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    make_project(pytester, SUITE, CONFTEST)

    def run(script: str, *options: str) -> pytest.RunResult:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nfv-report=none", *options]
        return pytester.run("sh", "-ec", script, "sh", *command)

    yield run
    for lock in base.glob("*.lock"):
        lock.unlink()
    base.rmdir()  # nothing else is left


CONTAINER = """
export LC_ALL=tr_TR.UTF-8 LOCPATH="$PWD" TZ=Europe/Berlin
unset HOME LOGNAME USER
exec unshare --mount --uts --pid --fork --kill-child sh -ec '
    mount -t proc -o hidepid=2 proc /proc
    mount -t tmpfs -o size=4k,noexec none /dev/shm
    mount -o remount,ro,bind /sys
    : > nobody; mount --bind nobody /etc/passwd
    {python} -c "import socket; socket.sethostname(bytes([109, 252, 108, 108, 101, 114]))"
    exec {python} -m tests.refusing perf_event_open={error} symlink=EPERM link=EPERM -- "$@"
' sh "$@"
"""


@pytest.mark.parametrize("error", ["EPERM", pytest.param("ENOSYS", marks=pytest.mark.thorough("another error"))])
def test_a_container_that_gives_little(within: Run, pytester: pytest.Pytester, error: str) -> None:
    """Steps: all at once: hidepid=2, 4 KiB of /dev/shm that nothing may be run from, a read-only /sys, no user name, no
    home, a host name in latin-1, Turkish, seccomp without perf events and links. Verify: what works elsewhere works.
    """
    if Path("/usr/share/i18n/locales/tr_TR").exists():
        subprocess.run(["localedef", "-i", "tr_TR", "-f", "UTF-8", str(pytester.path / "tr_TR.UTF-8")], check=True)
    result = within(CONTAINER.format(python=sys.executable, error=error))
    assert result.ret == 0, result.stdout.str() + result.stderr.str()
    result.assert_outcomes(passed=1)


GUARDED = """
exec unshare --mount --net sh -ec '
    mount -t tmpfs none /run/netns
    ip netns add nfv-abcdef-theirs; ip netns add cni-1
    {python} -m tests.functional.crowded_host guard
    {python} -m tests.functional.crowded_host manage > managed &
    manager=$!
    while [ ! -s managed ]; do sleep 0.1; done
    ip -br link > before
    "$@"; status=$?
    kill $manager
    ip -br link > after; ip netns > names
    exit $status
' sh "$@"
"""


def test_a_host_with_a_firewall_bridges_and_a_manager_of_links(within: Run, pytester: pytest.Pytester) -> None:
    """Steps: in a host's place: nftables drops on every hook, bridges and namespaces have names like ours, a manager
    of links renames each that appears. Verify: the test passes; no link of ours was ever seen; all is as before.
    """
    result = within(GUARDED.format(python=sys.executable))
    assert result.ret == 0, result.stdout.str() + result.stderr.str()
    result.assert_outcomes(passed=1)
    text = {name: (pytester.path / name).read_text() for name in ("managed", "before", "after", "names")}
    assert text["managed"] == "ready\n"
    assert text["after"] == text["before"]
    assert all(f"{name} " in text["after"] for name in BRIDGES)
    assert [line.split()[0] for line in sorted(text["names"].splitlines())] == ["cni-1", "nfv-abcdef-theirs"]


TESTBED = """
schema: 1
name: mine
cpus: {housekeeping: [0], generator: [0], pmd: [1]}
"""


@pytest.fixture
def one_cpu() -> Iterator[Path]:
    """A control group with the first CPU only, by version 1."""
    if not (CPUSET / "cpuset.cpus").exists() or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("no cpuset of control groups version 1 here, or one CPU only")
    group = CPUSET / f"nfv-test-{os.getpid()}"
    group.mkdir()
    try:
        for name in ("cpuset.mems", "cpuset.cpus"):
            (group / name).write_text("0")
        yield group
    finally:
        group.rmdir()


def test_a_cpuset_smaller_than_the_machine(within: Run, pytester: pytest.Pytester, one_cpu: Path) -> None:
    """Steps: a testbed file names a CPU that the machine has and the control group lacks. Verify: a usage error.

    OVS starts its PMD thread on another CPU then, without a word, and everything would be measured there.
    """
    (pytester.path / "lab.yaml").write_text(TESTBED)
    result = within(f'echo $$ > {one_cpu}/cgroup.procs; exec "$@"', "--nfv-testbed=lab.yaml")
    assert result.ret == 4
    said = (
        f"may not run on CPU 1: the cpuset of its control group (/{one_cpu.name}) or container does not have it; give"
    )
    result.stdout.fnmatch_lines([f"*cpus.pmd (or dut.ovs.pmd_cpus): this process {said}*"])


@pytest.mark.thorough("another run")
def test_without_the_right_to_raise_priorities_the_run_says_so_once(within: Run) -> None:
    """As root in a container that Docker makes by itself."""
    result = within('exec setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice "$@"')
    assert result.ret == 0, result.stdout.str() + result.stderr.str()
    assert result.stdout.str().count("nfvperf: DUT and generator cannot run before other programs: this process") == 1


READ_ONLY = """
exec unshare --mount sh -ec 'mount --bind /proc/sys /proc/sys; mount -o remount,ro,bind /proc/sys; exec "$@"' sh "$@"
"""


def test_proc_sys_that_is_read_only_is_named(within: Run) -> None:
    """As in a container without --privileged."""
    result = within(READ_ONLY)
    assert result.ret == 11
    result.stdout.fnmatch_lines(["*a container needs /proc/sys to be writable (docker run --privileged)*"])


def test_ipv6_that_is_off_in_every_new_namespace_is_on_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps: have each namespace begin with net.ipv6.conf.all.disable_ipv6=1, as net.core.devconf_inherit_init_net lets
    it; join two that have IPv6 addresses, and connect. Verify: they talk.
    """
    enter_new = namespaces.enter_new

    def without_ipv6() -> None:
        enter_new()
        for which in ("all", "default"):
            Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text("1")

    monkeypatch.setattr(namespaces, "enter_new", without_ipv6)
    with pair(addresses=ADDRESSES_6) as joined:
        listener = inside_netns(
            joined.server.namespace, lambda: socket.create_server((joined.server.address, 5001), family=socket.AF_INET6)
        )
        address = (joined.server.address, 5001)
        client = inside_netns(joined.client.namespace, lambda: socket.create_connection(address, timeout=5))
        client.close()
        listener.close()


HOSTS = {"rp_filter": "1", "arp_ignore": "8", "arp_announce": "2", "proxy_arp": "1", "forwarding": "1"}


def test_a_hosts_settings_of_ipv4_do_not_reach_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps: have each namespace begin with what Docker, systemd or a load balancer sets on a host, as kernels do;
    join two, and connect. Verify: they talk, neither forwards, and only who is to route does.
    """
    enter_new = namespaces.enter_new

    def as_the_host() -> None:
        enter_new()
        for which, (name, value) in itertools.product(("all", "default"), HOSTS.items()):
            Path(f"/proc/sys/net/ipv4/conf/{which}/{name}").write_text(value)

    monkeypatch.setattr(namespaces, "enter_new", as_the_host)
    with pair() as joined:
        listener = inside_netns(joined.server.namespace, lambda: socket.create_server((joined.server.address, 5001)))
        address = (joined.server.address, 5001)
        inside_netns(joined.client.namespace, lambda: socket.create_connection(address, timeout=5)).close()
        listener.close()
        for end in (joined.client, joined.server):
            assert inside_netns(end.namespace, lambda: _settings(*HOSTS)) == ["0"] * len(HOSTS)
        (router,) = LiveNamespace.several(joined.journal, [NamespacePlan("router", routing=True)])
        assert inside_netns(router.name, lambda: _settings("forwarding", "rp_filter")) == ["1", "0"]
        router.close()


def _settings(*names: str) -> list[str]:
    return [Path(f"/proc/sys/net/ipv4/conf/all/{name}").read_text().strip() for name in names]


def test_a_kernel_without_ipv6_says_who_needs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("all", "default"):
        (tmp_path / "ipv4/conf" / name).mkdir(parents=True)
    monkeypatch.setattr(namespaces, "_SYSCTL", tmp_path)
    with clean_run() as journal:
        LiveNamespace(journal, "four").close()
        with pytest.raises(
            TestbedError,
            match=r"network namespace nfv-.+-six: .*this kernel has no IPv6 \(ipv6\.disable=1",
        ):
            LiveNamespace.several(journal, [NamespacePlan("six", ipv6=True)])
