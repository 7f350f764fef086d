"""`xsessionctl completion`: what a shell needs to complete verbs, options and the names of live sessions."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from xsessionctl.options import Setup, verb
from xsessionctl.output import write_text


@verb(
    "completion",
    examples={
        'eval "$(xsessionctl completion bash)"': "in ~/.bashrc; likewise zsh in ~/.zshrc",
        "xsessionctl completion fish | source": "in ~/.config/fish/config.fish",
    },
    timed=False,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(setup: Setup, *, shell: str) -> int:
    """Completion for your shell, with live names.

    Prints the script that the shell has to read. Names come from the running broker; without one, or when it is slow,
    there are none and nothing is started.
    """
    import sys

    from xsessionctl.cli import PROGRAM, tree

    made = get_completion_class(shell)
    assert made is not None
    script = made(tree, {}, PROGRAM, "_XSESSIONCTL_COMPLETE").source()
    if setup.as_json:
        setup.sink.document({"shell": shell, "script": script})
    else:
        write_text(sys.stdout, script)
    return 0
