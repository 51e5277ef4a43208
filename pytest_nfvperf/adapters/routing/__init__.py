"""Routing daemons in namespaces, behind ports.bgp.BgpSpeaker, and routes as flows."""
