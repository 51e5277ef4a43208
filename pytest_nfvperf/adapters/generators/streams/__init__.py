"""Programs between two namespaces, behind the stream ports: iperf3, iperf 2 and sockperf."""
