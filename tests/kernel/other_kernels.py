"""Kernels of other releases of Debian than this machine's, for guests that need what its own kernel lacks."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from pytest_nfvperf.adapters.generators.embedded.build import default_cache_dir
from pytest_nfvperf.adapters.host.apt import PrivateApt, debian_archive
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.vnf import guest_kernel
from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel


def kernel_of(release: str, cache: Path | None = None) -> Kernel:
    """Return the kernel of a release of Debian ("trixie", whose kernel has VDUSE), from the cache or downloaded.

    Errors as of ``prepare_kernel``; ConfigError, too, if apt knows no archive of Debian or no such release.
    """
    guest_kernel.need("apt-get", "dpkg-deb", "depmod")
    cache = cache or default_cache_dir() / "kernel"
    link = cache / release
    if not link.is_dir():
        with guest_kernel._locked(cache), tempfile.TemporaryDirectory() as scratch:
            if not link.is_dir():
                link.unlink(missing_ok=True)
                link.symlink_to(_fetch_of(release, cache, Path(scratch)))
    return Kernel(link.resolve(), link.resolve().name)


def _fetch_of(release: str, cache: Path, scratch: Path) -> str:
    apt = PrivateApt(release, debian_archive(), scratch)
    package = guest_kernel._kernel_package(run(["apt-cache", *apt._options, "depends", guest_kernel._METAPACKAGE]))
    name = package.removeprefix("linux-image-")
    kernel = Kernel(cache / name, name)
    if not kernel.directory.is_dir():
        download = ["apt-get", "--quiet=2", *apt._options, "download", package, guest_kernel._BUSYBOX]
        run(["env", "-C", str(scratch), *download], deadline_s=600.0)
        guest_kernel._make(kernel, cache, partial(guest_kernel._unpack, sorted(scratch.glob("*.deb"))))
    return name
