"""VNFs that run as processes of their own, and guests booted by QEMU."""
