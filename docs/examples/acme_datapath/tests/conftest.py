"""The fixtures of pytest_nfvperf: deploy, search, sla."""

pytest_plugins = ["pytest_nfvperf.fixtures.all"]
