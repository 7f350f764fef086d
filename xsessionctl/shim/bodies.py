"""Texts that are too long for a harness, each in a file that only its user can read.

Laws: the file holds what was sent, byte for byte, so that the size and the SHA-256 in the envelope are its own; it is
written whole before anybody is told of it, and removed when a final message would be, here and by the broker. Refuses
to know: envelopes, limits of harnesses.
"""

from __future__ import annotations

from time import time

from xsessionctl.whole_file import write_whole
from xsessiond.core.limits import KEEP_MS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from xsessiond.core.envelope import SpilledInfo


def spill(message: Mapping[str, object]) -> SpilledInfo | None:
    """Puts the text of a message (of the wire) into a file; None if that cannot be done, as on a full disk."""
    from xsessiond.core.envelope import SpilledInfo
    from xsessiond.paths import PathError, resolve_paths
    from xsessiond.private_dirs import ensure_private_dir, remove_older

    message_id, text = str(message.get("id")), str(message.get("text"))
    body = text.encode("utf-8", "replace")
    try:
        folder = resolve_paths().bodies_dir
        ensure_private_dir(folder)
        remove_older(folder, time() - KEEP_MS / 1000)
        path = f"{folder}/{message_id}.txt"
        write_whole(path, body)
    except (OSError, PathError):
        return None
    return SpilledInfo(path, len(body), str(message.get("sha256")))
