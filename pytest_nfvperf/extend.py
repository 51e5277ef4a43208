"""Base classes and data for backends, datapaths, generators, figures and daemons of others.

Inherit them: what yours cannot do keeps its default, which does nothing, or skips the test and says why.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("pytest_nfvperf", __file__)
