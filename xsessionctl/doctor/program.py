"""Which versions meet here: of this program, of the broker, and of what stands on the disk since."""

from __future__ import annotations

from collections.abc import Iterator

from xsessionctl.doctor.findings import Finding, Look
from xsessiond import __version__
from xsessiond.core.limits import PROTOCOL


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    broker = look.broker()
    if not broker:
        yield Finding("program", "ok", f"xsessionctl is version {__version__}; no broker runs.")
        return
    version, protocol = broker.get("version"), broker.get("protocol")
    both = (
        f"The broker is version {version} (protocol {protocol}), this xsessionctl {__version__} (protocol {PROTOCOL})."
    )
    if protocol != PROTOCOL:
        why = "They understand each other in `status`, `stop` and `restart` only."
        yield Finding("program", "problem", both, why, "xsessionctl restart")
    elif version != __version__:
        why = "The broker goes on as it was when it started, also after an upgrade."
        yield Finding("program", "note", both, why, "xsessionctl restart")
    else:
        yield Finding("program", "ok", f"The broker and xsessionctl are version {version}.")
