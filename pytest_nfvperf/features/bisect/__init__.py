"""Which version of OVS changed a figure: nfvperf bisect and nfvperf judge."""
