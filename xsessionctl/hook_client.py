"""Asks the running shim for the answer to a hook: what `harness/hook.sh` runs when something waits for the session.

    python -I -S hook_client.py DIRECTORY EVENT [wait]

A program of its own and no part of the package, because a hook pays for everything that it imports. Laws: it ends
within WITHIN_S, says nothing but the answer, and ends with 0 whatever goes wrong; only one that waits takes its time,
and then ends with 2 to wake the session. Refuses to know: what an event means.
"""

import os
import sys
from _signal import ITIMER_REAL, SIGALRM, setitimer, signal  # type: ignore[import-not-found] # `signal` imports enum

WITHIN_S = 0.165
"""Longer than the shim takes for an answer, and with the start of this program less than 0.2 s."""
MOST = 1 << 23
"""Bytes of an event that are passed on."""


def main(words: "list[str]") -> int:
    """words: as on the command line. Returns the exit code."""
    folder, event = words[0], words[1]
    waits = words[2:3] == ["wait"]
    try:
        if not waits:
            signal(SIGALRM, lambda *_: os._exit(0))
            setitimer(ITIMER_REAL, WITHIN_S)
        text = b"" if waits else _read(0)
        from _socket import AF_UNIX, SOCK_STREAM, socket

        os.chdir(folder)  # the path of a socket must be short, and that of the state directory need not be
        link = socket(AF_UNIX, SOCK_STREAM)
        link.settimeout(WITHIN_S)
        link.connect("sock")
        link.sendall(f"{event} {'wait' if waits else 'ask'} {len(text)}\n".encode() + text)
        if waits:
            link.settimeout(None)
        answer = b""
        while True:
            more = link.recv(1 << 16)
            if not more:
                break
            answer += more
        setitimer(ITIMER_REAL, 0)  # an answer goes out whole
    except (ImportError, OSError):
        return 0
    if not answer:
        return 0
    try:
        _write(2 if waits else 1, answer)
    except OSError:
        return 0
    return 2 if waits else 0


def _read(descriptor: int) -> bytes:
    data = b""
    try:
        while len(data) < MOST:
            more = os.read(descriptor, 1 << 16)
            if not more:
                break
            data += more
    except OSError:
        pass
    return data


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]) if len(sys.argv) > 2 else 0)
