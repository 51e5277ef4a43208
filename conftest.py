"""The fixtures that the suites use; third parties write the same line."""

pytest_plugins = ["pytest_nfvperf.fixtures.all"]
