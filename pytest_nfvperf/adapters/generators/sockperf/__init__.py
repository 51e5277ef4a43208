"""Request and response between two namespaces by sockperf."""
