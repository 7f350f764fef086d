"""A screen that stays: the one user of rich, loaded only for it.

Laws: what is shown is what `render` makes; here it is only kept on the screen, and drawn again. On anything but a
terminal each change is printed below the last one. Refuses to know: requests, options.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from rich.console import Console
from rich.live import Live
from rich.text import Text

from xsessionctl.outcome import Document
from xsessionctl.output import Sink, is_terminal

EVERY_S = 1.0
"""How often a screen asks. A person sees no more than that, and the broker answers from memory."""


def poll(read: Callable[[], Document]) -> Iterator[Document]:
    """What `read` returns, again and again, until it raises."""
    while True:
        yield read()
        time.sleep(EVERY_S)


def watch(
    documents: Iterable[Document], show: Callable[[Document, Sink], list[str]], sink: Sink, *, as_json: bool
) -> None:
    """Shows each of `documents` in place of the one before, until they end or Ctrl-C does."""
    import sys

    if as_json or not is_terminal(sys.stdout):
        _follow(documents, show, sink, as_json=as_json)
        return
    console = Console(highlight=False, no_color=not sink.colored(sys.stdout))
    with Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as screen:
        for document in documents:
            lines = [*show(document, sink), "", sink.paint("Ctrl-C ends this.", "dim")]
            screen.update(Text.from_ansi("\n".join(lines)), refresh=True)


def _follow(
    documents: Iterable[Document], show: Callable[[Document, Sink], list[str]], sink: Sink, *, as_json: bool
) -> None:
    last: object = None
    for document in documents:
        now = document if as_json else show(document, sink)
        if now != last:
            sink.document(now) if as_json else sink.lines([*now, ""])
            last = now
