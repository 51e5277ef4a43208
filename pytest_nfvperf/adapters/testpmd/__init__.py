"""DPDK's testpmd as a datapath."""
