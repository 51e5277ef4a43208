"""The host: CPUs, hugepages, packages, the fingerprint."""
