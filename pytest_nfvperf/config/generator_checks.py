"""What contradicts itself in the ``generator`` section of a testbed file."""

from __future__ import annotations

from pytest_nfvperf.config.testbed_model import GeneratorModel
from pytest_nfvperf.config.yaml_file import Document

_OF_TREX = ("server", "client", "trex")


def check_generator(generator: GeneratorModel, document: Document) -> None:
    """Raise ConfigError for keys that the engine does not have, or that it lacks."""
    if generator.engine == "trex":
        _check_trex(generator, document)
    else:
        for key in _OF_TREX:
            if getattr(generator, key):
                raise document.error(
                    f"engine {generator.engine!r} has no {key}: write 'engine: trex' or leave '{key}' out",
                    ("generator", key),
                )
    _check_recording(generator, document)
    twice = sorted({port for port in generator.ports if generator.ports.count(port) > 1})
    if twice:
        raise document.error(f"port {twice[0]} is listed twice", ("generator", "ports"))


def _check_trex(generator: GeneratorModel, document: Document) -> None:
    trex = generator.trex
    start = trex.start if trex else None
    if not generator.server and start is None:
        raise document.error("engine 'trex' needs its server: write e.g. 'server: tgen1'", ("generator", "engine"))
    if start is not None and generator.server not in {None, "127.0.0.1", "localhost"}:
        raise document.error(
            f"a TRex that is started here is not on {generator.server!r}: leave 'server' out, or 'trex.start'",
            ("generator", "server"),
        )
    if start is not None and generator.ports and max(generator.ports) >= len(start.interfaces):
        raise document.error(
            f"port {max(generator.ports)} is not there: trex.start has {len(start.interfaces)} interfaces, "
            f"which are ports 0..{len(start.interfaces) - 1}",
            ("generator", "ports"),
        )
    for index, route in enumerate(trex.routes if trex else ()):
        if route.port not in generator.ports:
            raise document.error(
                f"port {route.port} is not one of generator.ports {list(generator.ports)}",
                ("generator", "trex", "routes", index, "port"),
            )


def _check_recording(generator: GeneratorModel, document: Document) -> None:
    if generator.engine == "replay" and not generator.recording:
        raise document.error(
            "engine 'replay' needs a recording: write e.g. 'recording: bug.jsonl'", ("generator", "engine")
        )
    if generator.engine != "replay" and generator.recording:
        raise document.error(
            f"engine {generator.engine!r} plays no recording: write 'engine: replay', "
            "or record with the option --nfv-record",
            ("generator", "recording"),
        )
