"""TCP connects between two namespaces by iperf 2."""
