"""Datapath acceptance for pytest: measure OVS and NICs, judge them against an SLA.

``import pytest_nfvperf as nfv``: what the stubs beside this file name is public, in ``nfv``, ``nfv.parts``,
``nfv.results``, ``nfv.extend`` and ``nfv.testing`` (docs/reference/api.md). Everything else is private
and can change with any release. A name is imported when it is first used.
"""

__version__ = "0.1.0"

try:
    from pytest_nfvperf.lazy_names import attach
except ModuleNotFoundError:  # the set-up of a bare machine (adapters/host/setup.py) runs before any pip install
    __all__: list[str] = []
else:
    __getattr__, __dir__, __all__ = attach(__name__, __file__)
