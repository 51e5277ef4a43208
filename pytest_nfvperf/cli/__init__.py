"""``nfvperf``: what is done outside a test run."""
