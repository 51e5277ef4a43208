"""Debian's package of an installed program, and its version: dpkg says whose a file is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.ovs.installation import _package
from pytest_nfvperf.adapters.process.process import run

DPKG_QUERY = Path("/usr/bin/dpkg-query")

pytestmark = pytest.mark.skipif(not DPKG_QUERY.exists(), reason="no dpkg here: another distribution")


def test_a_program_is_of_the_package_that_its_file_is_of(tmp_path: Path) -> None:
    link = tmp_path / "alternative"
    link.symlink_to(DPKG_QUERY)
    version = run(["dpkg-query", "--show", "--showformat=${Version}", "dpkg"])

    assert _package(str(link)) == (("dpkg", version),), "also by Debian's alternatives, which are links"


def test_a_program_installed_by_hand_is_of_no_package(tmp_path: Path) -> None:
    by_hand = tmp_path / "ovs-vswitchd"
    by_hand.touch()

    assert _package(str(by_hand)) == ()
