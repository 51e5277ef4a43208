"""Topologies as data: nodes, links, the ways of frames, and the checks of all three."""
