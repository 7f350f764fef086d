"""The hooks of Gemini CLI as our tests set them up by hand: each event a command, our hook program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

import xsessionctl.harness
from xsessionctl.shim.dialects import GEMINI

TIMEOUT_MS = 5000
PROGRAM = Path(xsessionctl.harness.__file__).parent / "hook.sh"


def add_hooks(home: Path, directories: Mapping[str, str]) -> None:
    """Adds them to the settings in `home`; directories: variables by which the hooks find the shim."""
    path = home / ".gemini" / "settings.json"
    settings = json.loads(path.read_text())
    variables = "".join(f"{name}={shlex.quote(value)} " for name, value in directories.items())
    settings["hooksConfig"] = {"enabled": True}
    settings["hooks"] = {
        event: [
            {
                "matcher": "*",
                "hooks": [
                    {
                        "name": f"xsession-{event}",
                        "type": "command",
                        "command": f"{variables}/bin/sh {shlex.quote(str(PROGRAM))} gemini {event}",
                        "timeout": TIMEOUT_MS,
                    }
                ],
            }
        ]
        for event in GEMINI.events
    }
    path.write_text(json.dumps(settings))
