"""The fixtures that the suites use; third parties write the same line."""

pytest_plugins = [
    "pytest_nfvperf.fixtures.nfv",
    "pytest_nfvperf.fixtures.topologies",
    "pytest_nfvperf.fixtures.parts",
    "pytest_nfvperf.fixtures.mirrors",
    "pytest_nfvperf.fixtures.measuring",
    "pytest_nfvperf.fixtures.routing",
    "pytest_nfvperf.fixtures.ovn",
]
