"""For tests of suites: a testbed in virtual time. For tests of datapaths: what every datapath keeps to."""

from pytest_nfvperf.lazy_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
