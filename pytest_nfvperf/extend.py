"""Protocols and data for backends, datapaths, generators, figures and daemons of others.

A class fulfils a protocol by its shape: it need not inherit it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("pytest_nfvperf", __file__)
