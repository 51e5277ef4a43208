"""What a refused TRex means for the user, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_nfvperf.adapters.generators.engine import EngineRefusedError
from pytest_nfvperf.adapters.generators.trex.server import TrexServer
from pytest_nfvperf.model.errors import ConfigError, GeneratorError, NfvperfError
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec

_USER_MISTAKES = {
    "exceeds port line rate": "lower the load, or write the port's line_rate into the testbed file",
    "Failed allocating statistic counter": "it has no more counters: use fewer directions or a mix of fewer sizes",
    "enforces a minimum rate": "raise the load, or measure without latency",
}


def explained(error: EngineRefusedError, spec: GeneratorSpec, started: TrexServer | None = None) -> NfvperfError:
    """The child's refusal as an error of ours: the server's words, and what to do.

    Args:
        error: the refusal.
        spec: of the generator.
        started: the server, where we started it; its log is evidence when it answers no more.
    """
    answer = error.answer
    text = answer["error"]
    server = f"TRex server {spec.server}"
    if answer["code"] in {"bad_port", "no_client", "version_mismatch"}:
        key, message = _config_mistake(answer, server)
        return ConfigError(message, key=key)
    for part, advice in _USER_MISTAKES.items():
        if part in text:
            return ConfigError(f"{server} refuses the trial: {text}; {advice}")
    if started is not None and (answer["code"] == "server_lost" or not started.running()):
        return GeneratorError(
            f"{server} stopped answering: its process (pid {started.pid}) {started.fate()}; look at its last output",
            evidence=started.evidence(),
        )
    # A refusal that is understood needs no trace of the client library's.
    return GeneratorError(
        _broken(answer, server, spec), evidence=error.evidence if answer["code"] == "refused" else None
    )


def _config_mistake(answer: Mapping[str, Any], server: str) -> tuple[str, str]:
    text = answer["error"]
    if answer["code"] == "bad_port":
        return "generator.ports", f"{server}: {text}; write numbers that it has"
    if answer["code"] == "no_client":
        return "generator.client", (
            f"{text}; write 'client: DIRECTORY' of the server's own TRex distribution (the one with t-rex-64), "
            "or for servers of 2019: pip install 'pytest-nfvperf[trex]'"
        )
    return "generator.client", (
        f"{server} and the client library do not fit: {text}; write 'client: DIRECTORY' of the server's own "
        "TRex distribution"
    )


def _broken(answer: Mapping[str, Any], server: str, spec: GeneratorSpec) -> str:
    text, code = answer["error"], answer["code"]
    if code == "unreachable":
        return (
            f"{server} is not there: {text}; start it (./t-rex-64 -i in its directory), or correct generator.server "
            "and generator.trex.rpc_port in the testbed file"
        )
    if code == "port_taken":
        return (
            f"{server}: {text}; release it there (trex-console, 'release'), wait for its owner, or write "
            "'force: true' in the generator section to take it all the same: their traffic is stopped then"
        )
    if code == "server_lost":
        return (
            f"{server} stopped answering: {text}; look whether it still runs, and at its last output. Its ports may "
            "still be ours there: they are taken back at the next start"
        )
    if code == "unresolved":
        return (
            f"{server}: {text}; nobody answered ARP: look at generator.trex.routes and at the DUT's address on that "
            "link, or leave the route out and give the traffic's MAC addresses"
        )
    ports = ", ".join(map(str, spec.ports))
    return f"{server} refused (ports {ports}): {text}"
