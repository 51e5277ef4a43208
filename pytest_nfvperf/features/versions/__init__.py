"""Versions of OVS that are kept beside the machine's own: nfvperf ovs."""
