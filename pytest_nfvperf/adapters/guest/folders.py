"""Folders of the host in a guest, by 9p (qemu(1), -fsdev)."""

from __future__ import annotations

from pathlib import Path


def shared_folder(tag: str, path: Path, *, readonly: bool) -> list[str]:
    """One folder under a 9p tag, as QEMU's arguments.

    remap: the root spans file systems whose inode numbers collide.
    """
    access = "on" if readonly else "off"
    backend = f"local,id={tag},path={_escaped(path)},security_model=none,readonly={access},multidevs=remap"
    return ["-fsdev", backend, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def _escaped(path: Path) -> str:
    """QEMU's options are separated by commas; one in a value is doubled."""
    return str(path).replace(",", ",,")
