"""The uncompressed kernel out of a bzImage: QEMU boots that by PVH, and nothing is unpacked under emulation."""

from __future__ import annotations

import lzma
import struct
import zlib
from pathlib import Path

from pytest_nfvperf.adapters.guest.tools import run_bytes
from pytest_nfvperf.model.errors import TestbedError

# Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header"
_SETUP_SECTORS = 0x1F1
_MAGIC = 0x202
_PAYLOAD = 0x248  # offset and length, 32 bits each; the offset counts from the protected-mode code
_SECTOR = 512
_SIZE_TRAILER = 4  # the kernel's build appends the size where the format does not carry it (xz, zstd, lz4)

_XZ, _ZSTD, _GZIP, _ELF = b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"\x7fELF"


def extract_vmlinux(image: bytes) -> bytes:
    """The ELF file in a bzImage.

    Raises:
        TestbedError: it is no bzImage, or is packed in a way that is not known; names what was seen.
    """
    if image[_MAGIC : _MAGIC + 4] != b"HdrS":
        raise TestbedError(f"no Linux bzImage: {image[_MAGIC : _MAGIC + 4]!r} where 'HdrS' should be")
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    start = ((image[_SETUP_SECTORS] or 4) + 1) * _SECTOR + offset
    kernel = _unpack(image[start : start + length])
    if not kernel.startswith(_ELF):
        raise TestbedError(f"the bzImage's payload unpacks to {kernel[:4]!r}, not to an ELF file")
    return kernel


def _unpack(payload: bytes) -> bytes:
    if payload.startswith(_XZ):
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
    if payload.startswith(_GZIP):
        return zlib.decompressobj(wbits=31).decompress(payload)
    if payload.startswith(_ZSTD):
        return unzstd(payload[:-_SIZE_TRAILER])
    raise TestbedError(f"the bzImage's payload begins with {payload[:6]!r}: neither xz, zstd nor gzip")


def unzstd(packed: bytes) -> bytes:
    """What ``zstd`` unpacks; Python's own module for it comes with 3.14."""
    return run_bytes(["zstd", "-qdc"], packed)


def read_module(path: Path) -> bytes:
    """A kernel module's ELF file, whatever the distribution packs it with."""
    packed = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(packed)
    return unzstd(packed) if path.suffix == ".zst" else packed
