"""Datapath acceptance for pytest: measure OVS and NICs, judge them against an SLA.

Importing the package costs nothing: the plugin, the fixtures and the adapters
import what they need when they need it.
"""

__version__ = "0.1.0"
