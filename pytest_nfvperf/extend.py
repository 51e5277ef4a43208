"""Base classes and data for backends, datapaths, generators, figures and daemons of others.

Inherit them: what yours cannot do keeps its default, which does nothing, or skips the test and says why.
"""

from pytest_nfvperf.lazy_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
