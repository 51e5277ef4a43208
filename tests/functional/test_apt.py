"""Packages of a Debian release fetched by this machine's apt, into a directory of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.apt import PrivateApt, debian_archive
from pytest_nfvperf.model.errors import TestbedError


@pytest.mark.thorough("downloads packages")
def test_packages_are_fetched_with_all_that_they_depend_on(tmp_path: Path) -> None:
    fetched = PrivateApt("bookworm", debian_archive(), tmp_path).download("a small program", "hostname")

    assert {path.name.split("_")[0] for path in fetched} >= {"hostname", "libc6"}
    assert all(path.stat().st_size > 10_000 for path in fetched)
    with pytest.raises(TestbedError, match="the packages of nothing of Debian 'bookworm' cannot be downloaded: "):
        PrivateApt("bookworm", debian_archive(), tmp_path / "again").download("nothing", "no-such-package")
