"""A page in headless Chromium, over its DevTools pipe: what it says, what it logs, how it looks."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")
_DEADLINE_S = 30.0


class Tab:
    """One page of a Chromium of its own. ``complaints``: errors and warnings that it logged."""

    def __init__(self, write: int, read: int) -> None:
        self._write = write
        self._read = read
        self._rest = b""
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of https://chromedevtools.github.io/devtools-protocol/, and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, f"{method}: {said['error']}"
                result: dict[str, Any] = said["result"]
                return result
            self._note(said)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._read, 1 << 20)
            assert part, "Chromium closed its DevTools pipe"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        said: dict[str, Any] = json.loads(message)
        return said

    def _note(self, said: dict[str, Any]) -> None:
        given = said.get("params", {})
        if said.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(given["exceptionDetails"])[:500])
        elif said.get("method") == "Runtime.consoleAPICalled" and given["type"] in {"error", "warning", "assert"}:
            self.complaints.append(str(given["args"])[:500])
        elif said.get("method") == "Log.entryAdded" and given["entry"]["level"] in {"error", "warning"}:
            self.complaints.append(str(given["entry"])[:500])

    def show(self, page: Path, *, width: int = 1400, dark: bool = False, fragment: str = "") -> None:
        """Load a page in a window of this width and colour scheme; a phone's has a finger instead of a mouse."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.call("Page.navigate", url=page.as_uri() + fragment)
        self.wait("document.readyState === 'complete'", f"{page.name} to load")

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        said = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, f"{expression}: {said['exceptionDetails']}"
        return said["result"].get("value")

    def wait(self, expression: str, what: str) -> None:
        """Until the expression is true."""
        deadline = time.monotonic() + _DEADLINE_S
        while not self.ask(expression):
            assert time.monotonic() < deadline, f"waited {_DEADLINE_S:g} s for {what}; logged: {self.complaints}"
            self.ask("new Promise(done => setTimeout(done, 30))")

    def picture(self, file: Path) -> None:
        """The whole page as PNG."""
        height = self.ask("document.documentElement.scrollHeight")
        width = self.ask("window.innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        said = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(said["data"]))


@contextmanager
def chromium() -> Iterator[Tab]:
    """A tab of a Chromium that ends with the block."""
    assert CHROMIUM is not None
    (their_read, our_write), (our_read, their_write) = os.pipe(), os.pipe()

    def take_pipes() -> None:  # Chromium reads commands from 3 and answers on 4
        read, write = os.dup(their_read), os.dup(their_write)
        os.dup2(read, 3)
        os.dup2(write, 4)

    with TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [CHROMIUM, *_OPTIONS],
            preexec_fn=take_pipes,  # noqa: PLW1509 - this process has no threads that fork could surprise
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": folder},  # its profile stays behind when it is killed
        )
        os.close(their_read)
        os.close(their_write)
        try:
            yield Tab(our_write, our_read)
        finally:
            process.terminate()
            process.wait()
            os.close(our_write)
            os.close(our_read)
