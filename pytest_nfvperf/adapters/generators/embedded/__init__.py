"""The embedded generator: our own engine, nfvperf-gen."""
