"""Routing daemons in namespaces, behind ports.routing.BgpSpeaker, and routes as flows."""
