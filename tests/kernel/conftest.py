"""What the tests of the kernel datapath share: the kernel, a journal, and one guest that did many things."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.vnf.guest_kernel import QEMU, Kernel, need, prepare_kernel
from pytest_nfvperf.model.errors import ConfigError
from tests.functional.ovs_support import clean_run


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """Debian's kernel; a skip only where this machine cannot have a guest at all."""
    try:
        need(QEMU, "cpio", "modprobe")
        return prepare_kernel()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture
def journal() -> Iterator[Journal]:
    """A run of the test's own, which must leave nothing."""
    with clean_run() as made:
        yield made
        assert made.entries == ()
