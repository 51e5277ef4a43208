"""Open vSwitch in a root directory: it runs there with packets, leaves it as it was, and tests ask for it by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from user_project import CONFTEST, records

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.model.errors import ConfigError
from tests.functional.ovs_support import needs_hugepages, needs_root
from tests.functional.root_support import listing, make_root

pytestmark = [needs_root, needs_hugepages, pytest.mark.thorough("unpacked versions of OVS")]

CACHE = build.default_cache_dir()  # now: tests of this file have caches of their own

BY_NAME = """
import pytest
import pytest_nfvperf as nfv
from pytest_nfvperf.model.traffic.trial import TrialSpec

@pytest.mark.parametrize("version", ["there", None, "nobody"])
def test_frames(version, deploy):
    live = deploy(nfv.phy2phy(), dut=nfv.Dut(version=version))
    traffic = nfv.Traffic(frame_size=128)
    live.learn(traffic)
    spec = TrialSpec(traffic, 1000, 0.3, live.topology.directions, latency=False)
    result = live.runner.run_once(spec).result
    assert result.received == result.sent > 0
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("root"))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own that has the machine's generator."""
    build.build()
    (tmp_path / "nfvperf").mkdir()
    for path in CACHE.glob("dpdk-*"):
        (tmp_path / "nfvperf" / path.name).symlink_to(path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_root_is_recognised(root: Path) -> None:
    found, installed = locate(str(root)), locate()
    assert found.root == root
    assert found.vswitchd == root / installed.vswitchd.relative_to("/")
    assert (found.version, found.dpdk_version) == (installed.version, installed.dpdk_version)


def lasting_mounts() -> list[str]:
    """What is mounted, but for namespaces, which other runs make and remove meanwhile."""
    lines = Path("/proc/mounts").read_text().splitlines()
    return [line for line in lines if not line.startswith("nsfs ")]


def test_a_root_that_lost_a_library_or_a_program_is_refused(root: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(root, changed, symlinks=True)
    next(changed.glob("usr/lib/*/librte_eal.so.*")).unlink()
    with pytest.raises(ConfigError, match=rf"library librte_eal\.so\.\d+ is missing in {changed}; unpack its package"):
        locate(str(changed))
    (changed / locate().vswitchd.relative_to("/")).unlink()
    with pytest.raises(ConfigError, match=r"holds no Open vSwitch: no ovs-vswitchd, looked for .*; unpack openvswitch"):
        locate(str(changed))


def test_a_test_asks_for_it_by_name_and_the_evidence_names_each_dut(
    root: Path, pytester: pytest.Pytester, own_cache: Path
) -> None:
    """Steps: one run on the root's OVS, on the testbed's own, on one that nobody named.

    Verify: evidence, the skip; nothing is written into the root, and nothing stays mounted.
    """
    before, mounts = listing(root), lasting_mounts()
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_by_name=BY_NAME)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rs", "--nfv-ovs", f"there={root}", timeout=120)
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*no version is called 'nobody' (named: there): give --nfv-ovs*"])
    duts = {record["data"]["dut"]["version"]: record["data"]["info"] for record in records(pytester.path, "topology")}
    own, there = duts[None], duts["there"]
    assert (own["origin"], there["origin"]) == ("installed", "prefix")
    assert own["installation"] == str(locate().vswitchd)
    assert there["installation"] == str(locate(str(root)).vswitchd)
    assert there["version"] == own["version"]
    assert "dpdkvhostuserclient" in dict(map(tuple, there["build"]))["port types"]
    (run,) = records(pytester.path, "run")[-1:]
    assert run["data"]["fingerprint"]["ovs_versions"]["there"]["ovs_binary"] == there["installation"]
    report = (pytester.path / "reports/latest/report.html").read_text()
    assert "<dt>DUT, there (dpdk)</dt>" in report
    assert listing(root) == before
    assert lasting_mounts() == mounts


def test_a_version_that_cannot_be_used_is_a_usage_error(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_by_name=BY_NAME)
    for given, message in (
        (f"old={tmp_path}", f"ERROR: ovs.old: '{tmp_path}' holds no Open vSwitch: no ovs-vswitchd*"),
        ("old=debian:nowhere", "ERROR: no version is kept as 'debian:nowhere' (kept: *"),
        ("a b=/opt", "ERROR: 'a b' cannot name a version*"),
    ):
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--nfv-ovs", given)
        result.stderr.fnmatch_lines([message])
        assert result.ret == pytest.ExitCode.USAGE_ERROR
