"""Events of outages: each is a function that takes a live topology. Give it more by ``functools.partial``."""

from pytest_nfvperf.lazy_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
