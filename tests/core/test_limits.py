"""The numbers, and how they must stand to each other."""

from __future__ import annotations

import ast
from pathlib import Path

from xsessiond.core import limits

SOURCE = Path(limits.__file__).read_text(encoding="utf-8")


def test_every_number_has_its_reason() -> None:
    body = ast.parse(SOURCE).body[1:]
    nodes = [node for node in body if not isinstance(node, ast.ImportFrom)]
    assert nodes
    for number, reason in zip(nodes[::2], nodes[1::2], strict=True):
        assert isinstance(number, ast.Assign), ast.unparse(number)
        assert isinstance(reason, ast.Expr), ast.unparse(number)
        assert isinstance(reason.value, ast.Constant)
        assert str(reason.value.value).rstrip().endswith("."), ast.unparse(number)


def test_a_body_fits_into_a_frame_with_its_header() -> None:
    header = limits.MAX_PATH + 6 * (limits.MAX_NAME + limits.MAX_LABEL + limits.MAX_HARNESS)
    assert limits.MAX_BODY + header + 1024 <= limits.MAX_FRAME


def test_what_depends_on_what() -> None:
    assert limits.PONG_WITHIN_S < limits.PING_AFTER_S
    assert limits.OUTBOX_PAUSE < limits.OUTBOX_BYTES
    assert limits.MAX_FRAME < limits.OUTBOX_BYTES  # one answer never cuts its reader off
    assert limits.MAX_FRAME < limits.MAX_SKIP
    assert limits.QUEUE_PER_SESSION <= limits.TAKE_MAX <= limits.PUSH_WINDOW
    assert limits.QUEUE_PER_SESSION * 2 * limits.LINKS_PER_SESSION <= limits.SHIM_REMEMBERED_IDS
    assert limits.SHIM_DRAIN_S + limits.SHIM_END_S < 2.0
    assert limits.MAX_NAME + len(" []") + 32 <= limits.MAX_ADDRESS
    assert limits.MAX_ADDRESS >= limits.MAX_KEY
    assert limits.KEEP_MS == 7 * 86_400_000
