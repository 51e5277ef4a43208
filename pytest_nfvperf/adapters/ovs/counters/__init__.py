"""What OVS, its PMDs and the kernel count, and the ledger made from it."""
