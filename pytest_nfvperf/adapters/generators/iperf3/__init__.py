"""iperf3 as a stream engine and as a load generator."""
