"""A text in the person's own editor.

Laws: the copy that is edited is private and is gone afterwards. Refuses to know: what the text is.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile

from xsessionctl.client import ClientError


def edit_text(text: str, name: str) -> str:
    """What the person made of `text`. name: of the file, so that the editor knows what it is. Raises ClientError."""
    program = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="xsessionctl-") as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        try:
            code = subprocess.run([*shlex.split(program), path], check=False).returncode
        except (OSError, ValueError) as error:
            raise ClientError("usage", f"The editor {program!r} cannot be started: {error}.", "Set EDITOR.") from None
        if code:
            raise ClientError("usage", f"The editor ended with {code}. Nothing was changed.", None)
        try:
            with open(path, encoding="utf-8", newline="") as file:
                return file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise ClientError("usage", f"What the editor left cannot be read: {error}.", None) from None
