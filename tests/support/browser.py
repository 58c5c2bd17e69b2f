"""A real browser for tests: Chromium, driven through a pipe by its DevTools protocol."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PATIENCE = 300.0  # seconds for any answer


def find() -> str | None:
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser with one page; leaves neither a process nor a file behind.

    Attributes:
        folder: of its profile, which is gone when it is closed.
        errors: what the console complained about, and exceptions that nobody caught.
        dialogs: the texts of alerts and the like that opened.
        requests: the addresses that pages asked for, other than data.
    """

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.folder = Path(self._profile.name)
        reads, ours = os.pipe()
        theirs, writes = os.pipe()
        # The protocol is spoken on the file descriptors 3 and 4.
        command = [
            *("sh", "-c", f'exec "$@" 3</dev/fd/{reads} 4>/dev/fd/{writes}', "sh", str(find())),
            *("--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--no-first-run"),
            *("--disable-dev-shm-usage", "--disable-background-networking", "--mute-audio"),
            *("--disable-component-update", "--disable-sync", "--disable-extensions"),
            *("--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
            *(f"--user-data-dir={self.folder}", "about:blank"),
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": str(self.folder)},
        )
        os.close(reads)
        os.close(writes)
        self._in, self._out = ours, theirs
        self._buffer, self._number = b"", 0
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        [page] = [t["targetId"] for t in targets if t["type"] == "page"]
        answer = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and all that it started."""
        os.close(self._in)  # it quits when nobody can speak to it any more
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # nothing is left of it
        self._process.wait()
        os.close(self._out)
        self._profile.cleanup()

    # ------------------------------------------------------------------ what a reader does

    def open(self, path: Path) -> None:
        """Load a page, whose errors, dialogs and requests are then the only ones known."""
        self.errors, self.dialogs, self.requests = [], [], []
        self._events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._wait_for("Page.loadEventFired")

    def look(self, *, width: int = 1200, height: int = 800, dark: bool = False) -> None:
        """Show pages in a window of some size, in the light or in the dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str) -> Any:
        """What an expression of JavaScript gives, awaited if it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until an expression of JavaScript is true."""
        end = time.monotonic() + _PATIENCE
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise AssertionError(f"never: {condition}")
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element."""
        place = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});"
            "const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="left",
                clickCount=1,
            )

    def type(self, text: str) -> None:
        """Write into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press Enter or Tab."""
        code = {"Enter": 13, "Tab": 9}[key]
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more
            )

    # ------------------------------------------------------------------ the protocol

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._in, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _wait_for(self, event: str) -> None:
        while not any(known["method"] == event for known in self._events):
            self._receive()

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], max(end - time.monotonic(), 0.0))
            part = os.read(self._out, 1 << 16) if ready else b""
            if not part:
                raise AssertionError("the browser does not answer")
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._note(message["method"], message["params"])
            self._events.append(message)
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("data:", "blob:")):
                self.requests.append(url)
