"""Versions of OVS besides the machine's own: nfvperf ovs."""
