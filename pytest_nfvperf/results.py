"""What comes back from a measurement, and what is read from evidence."""

from pytest_nfvperf.lazy_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
