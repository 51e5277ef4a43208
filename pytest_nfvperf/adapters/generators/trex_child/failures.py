"""What the child answers when something cannot be done: a stable code, and a text for a person."""

from __future__ import annotations

import re

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TAKEN = re.compile(r"already (?:taken by|owned by another session of) '(?P<owner>[^']*)'")
_LOST = ("connection to the server had been lost", "Failed to get server response", "Failed to send message")
_LOST_TOO = ("Not connected to server", "not valid while disconnected", "no data flow from server", "reconnect")
_MISMATCH = ("version mismatch", "configuration mismatch", "Mismatch between client and server versions")


class Failure(Exception):  # noqa: N818 - an answer, not an accident
    """A request that is refused. ``code`` is what the parent decides by."""

    def __init__(self, code: str, message: str, **facts: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.facts = facts


class Stopped(BaseException):
    """The parent is gone, or wants us to end: release everything and go."""


def text_of(error: BaseException) -> str:
    """What a client library's exception says; some of them raise when they are asked by ``str``."""
    message = getattr(error, "msg", None)
    if message is None:
        message = ": ".join(str(argument) for argument in error.args) or type(error).__name__
    return _COLOURS.sub("", str(message)).strip()


def failure_of(error: BaseException) -> Failure:
    """The library's exception as a failure with a code."""
    if isinstance(error, Failure):
        return error
    text = text_of(error)
    taken = _TAKEN.search(text)
    if taken:
        return Failure("port_taken", text, owner=taken["owner"])
    if isinstance(error, KeyboardInterrupt) or any(part in text for part in (*_LOST, *_LOST_TOO)):
        return Failure("server_lost", text)
    if any(part.lower() in text.lower() for part in _MISMATCH):
        return Failure("version_mismatch", text)
    if "Could not resolve following ports" in text or "dest MAC is invalid" in text:
        return Failure("unresolved", text)
    return Failure("refused", text)
