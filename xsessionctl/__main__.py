"""`xsessionctl`: which way in. The cheap forms first, the shims next, everything else through the full command line.

Nothing is imported here before it is known to be needed (docs/decisions/0010-the-fast-way-in.md).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def run(words: "Sequence[str]") -> int:
    """Does what `words` (without the program's name) ask. Returns the exit code."""
    if words and words[0] == "mcp" and not any(word.startswith("-") for word in words[1:]):
        from xsessionctl.shim import mcp

        return mcp.main()
    if list(words) == ["bridge", "opencode"]:
        from xsessionctl.shim import bridge

        return bridge.main()
    from xsessionctl import fast

    try:
        code = fast.run(words)
        if code is None:
            if sys.flags.no_site:
                import site

                site.main()  # the command leaves this out (bin/xsessionctl), but click may lie anywhere
            from xsessionctl import cli

            code = cli.run(words)
    except KeyboardInterrupt:
        code = 130
    except OSError as problem:
        code = _say_unwritable(problem)
    return code


def main() -> "NoReturn":
    """The command. Does not return."""
    code = run([word if word.isascii() else as_text(word) for word in sys.argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass  # nobody is there to read it; what was to be said about that has been said
    import atexit
    import os

    if not atexit._ncallbacks():
        # Nobody has anything to do at exit, so the interpreter need not be taken apart piece by piece: an eighth of the
        # whole command.
        os._exit(code)
    sys.exit(code)


def as_text(word: str) -> str:
    """A word of the command line whose bytes are UTF-8 although the locale (LANG=C) made Python take them for something
    else."""
    import os

    try:
        return os.fsencode(word).decode() if not word.isprintable() else word
    except UnicodeDecodeError:
        return word


def _say_unwritable(problem: OSError) -> int:
    try:
        sys.stderr.write(f"xsessionctl: {problem.filename or 'The output'}: {problem.strerror or problem}.\n")
    except (OSError, ValueError, AttributeError):
        pass
    return 1


if __name__ == "__main__":
    main()
