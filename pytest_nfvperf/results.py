"""What comes back from a measurement, and what is read from evidence."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("pytest_nfvperf", __file__)
