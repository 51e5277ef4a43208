"""Acme's wire: a datapath of a third party, as a template. ``wire`` fulfils the ports, ``plugin`` makes it known."""
