"""The fixtures that the suites use."""

pytest_plugins = ["pytest_nfvperf.fixtures.all"]
