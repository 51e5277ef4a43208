"""DPDK's testpmd: a running one, the datapath that it is, and its versions."""
