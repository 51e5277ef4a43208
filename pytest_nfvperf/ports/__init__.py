"""Ports: what the runs need from the world, as typing.Protocol. Adapters fulfil them by shape."""
