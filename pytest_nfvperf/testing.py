"""For tests of suites: a testbed in virtual time. For tests of datapaths: what every datapath keeps to."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("pytest_nfvperf", __file__)
