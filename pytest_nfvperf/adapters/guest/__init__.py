"""Guests: a kernel and a first file system from the distribution's packages, booted by QEMU."""
