"""Which functions cost what: nfvperf profile."""
