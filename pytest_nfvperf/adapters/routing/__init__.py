"""Routing daemons in namespaces, behind ports.bgp_speaker.BgpSpeaker, and routes as flows."""
