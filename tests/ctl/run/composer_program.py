#!/usr/bin/env python3
"""Draws a composer as Gemini CLI does, and tells on standard error's file what was entered. For the tests of `run`."""

import os
import signal
import sys
import tty

RULE = "─" * 60
LOG = os.environ["COMPOSER_LOG"]


def log(text):
    with open(LOG, "a", encoding="utf-8") as file:
        file.write(text + "\n")


def draw(text):
    field = text or "  Type your message or @path/to/file"
    os.write(1, f"\x1b[2J\x1b[H{RULE}\r\n accept edits\r\n > {field}\r\n status\r\n".encode())


def size(*_):
    log("size {} {}".format(*os.get_terminal_size()))


log(f"bell {os.environ['XSESSIOND_TERMINAL']}")
size()
signal.signal(signal.SIGWINCH, size)
signal.signal(signal.SIGHUP, lambda *_: (log("hung up"), os._exit(9)))
tty.setraw(0)
draw("")
text = ""
while True:
    for key in os.read(0, 4096).decode():
        if key == "\r":
            log(f"entered {text}")
            if text == "quit":
                sys.exit(7)
            text = ""
        elif key == "\x15":
            text = ""
        else:
            text += key
    draw(text)
