"""Topologies as data: nodes, links, the paths of frames, and the checks of all three."""
