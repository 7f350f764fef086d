"""A listener that says what it is told to, for what no real broker does: garbage, silence, half an answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Script = Callable[[socket.socket, list[dict[str, object]]], None]
"""Gets a link and the frames that came first; what it does is what the broker does. Then the link is closed."""


@contextmanager
def faulty_broker(path: Path, script: Script, *, frames: int = 2) -> Iterator[list[list[dict[str, object]]]]:
    """Listen at `path`; for each link, read so many frames and run `script`. Yields what came, a list for each link."""
    came: list[list[dict[str, object]]] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                with link:
                    link.settimeout(10)
                    lines = b""
                    while lines.count(b"\n") < frames and (data := link.recv(1 << 16)):
                        lines += data
                    came.append([json.loads(line) for line in lines.splitlines()])
                    script(link, came[-1])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield came
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def say(*frames: object) -> Script:
    """A script that says these: bytes as they are, anything else as a frame."""

    def script(link: socket.socket, _: list[dict[str, object]]) -> None:
        for frame in frames:
            link.sendall(frame if isinstance(frame, bytes) else json.dumps(frame).encode() + b"\n")

    return script


def hang(link: socket.socket, _: list[dict[str, object]]) -> None:
    """Say nothing until the other side goes."""
    try:
        link.recv(1)
    except OSError:
        pass
