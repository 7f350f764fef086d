"""A session that connects to the rendezvous as fast as it can, run as a program: flooder.py RENDEZVOUS NAME.

It says on its output, a word a line: `up` when it is introduced, `refused` when it was turned away for the first time,
`attached` when it came back through its private socket while that was so. It floods from the first line on its input
until the second; then it says `back` when it is served again, and last how often it connected.
"""

from __future__ import annotations

import os
import select
import socket
import sys

from tests.support.wire_client import LinkLost, Member, Wire, poll

LOOK_EACH = 50
"""Every so many connections one asks something, and finds out whether it is served."""


def is_served(rendezvous: str) -> bool:
    """Whether a new connection gets its answer; False where it is turned away."""
    try:
        with Wire(rendezvous) as wire:
            wire.ask("status")
            return "result" in wire.read()
    except LinkLost:
        return False


def say(word: object) -> None:
    """One line for the test."""
    print(word, flush=True)


def main() -> None:
    """See above."""
    rendezvous, name = sys.argv[1:]
    member = Member(rendezvous, name, pid=os.getpid())
    say("up")
    sys.stdin.readline()
    tried, turned_away = 0, False
    while not (tried % LOOK_EACH == 0 and select.select([sys.stdin], [], [], 0)[0]):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(rendezvous)
        tried += 1
        if tried % LOOK_EACH == 0 and not turned_away and not is_served(rendezvous):
            turned_away = True
            say("refused")
            member.wire.close()
            member.wire = member._attach()
            say("attached")
    poll(lambda: is_served(rendezvous), bool)
    say("back")
    say(tried)


if __name__ == "__main__":
    main()
