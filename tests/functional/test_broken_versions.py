"""A version that crashes at its start, or lacks a library in its root: one clear error, and nothing stays behind."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import Dut
from tests.functional.ovs_support import clean_run, needs_root, testbed
from tests.functional.root_support import make_root

pytestmark = needs_root

CRASHES = """#!/bin/sh
test "$1" != --version || { echo 'ovs-vswitchd (Open vSwitch) 3.3.4'; exit 0; }
echo 'planted: reading the configuration' >&2
kill -SEGV $$
"""


@pytest.fixture
def crashing(tmp_path: Path) -> Path:
    """The installed version, but for a vswitchd that dies of its first configuration."""
    installed = locate()
    for name, program in (
        ("sbin/ovsdb-server", installed.ovsdb_server),
        ("bin/ovsdb-tool", installed.ovsdb_tool),
        ("bin/ovs-ofctl", installed.ofctl),
        ("share/openvswitch/vswitch.ovsschema", installed.schema),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(program)
    (tmp_path / "sbin/ovs-vswitchd").write_text(CRASHES)
    (tmp_path / "sbin/ovs-vswitchd").chmod(0o755)
    return tmp_path


def test_a_version_that_crashes_at_its_start_is_said_with_its_last_words(crashing: Path) -> None:
    bed = testbed("netdev")
    bed = dataclasses.replace(bed, ovs=dataclasses.replace(bed.ovs, prefix=str(crashing)))
    said = r"^ovs-vswitchd \(pid \d+\) was killed by SIGSEGV"
    with clean_run() as journal, pytest.raises(TestbedError, match=said) as died:
        OvsDatapath.start(bed, journal, Dut("netdev"))
    assert "planted: reading the configuration" in died.value.evidence["ovs-vswitchd.log"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("root"))


def test_a_root_that_lacks_a_library_names_it(root: Path) -> None:
    """Takes the library away for good, and looks at the root as at one that nobody has seen before."""
    root = root.rename(root.with_name("lacking"))
    (library,) = (root / "usr").glob("lib/**/libnuma.so.1")
    library.unlink()
    with pytest.raises(
        ConfigError, match=r"the library libnuma\.so\.1 is missing in .*/lacking; unpack its package there"
    ):
        locate(str(root))
