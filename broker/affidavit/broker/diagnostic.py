"""Diagnostics: what may be kept of an answer that is no result (R31; interface, section 3). Pure.

Bytes that broke off anywhere are redacted so that no beginning of a secret is left at their end. Of an HTTP answer only
what redaction can read is kept: no cookies, and no body under a content coding.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

from affidavit.broker.decode import coding_names
from affidavit.broker.redact import HIDDEN_HEADERS, Forms, redact_cut

_HEAD_END = re.compile(rb"\r?\n\r?\n")
"""Of a head as a lenient reader takes it: a head that is broken is told of too."""


def diagnostic(data: bytes, forms: Forms, note: str) -> dict[str, Any]:
    """`{bytes, base64, note}` of bytes that were cut off somewhere."""
    cleaned = redact_cut(data, forms)
    return {"bytes": len(cleaned), "base64": base64.b64encode(cleaned).decode(), "note": note}


def readable(answer: bytes, *, framed: bool) -> bytes:
    """An HTTP answer without the cookies that it sets, and without a body that redaction could not read.

    `answer`: its first bytes. `framed`: its head was in order, and what follows it is its body, framing removed.
    """
    end = _HEAD_END.search(answer)
    head, body = (answer[: end.end()], answer[end.end() :]) if end is not None else (answer, b"")
    codings = [value for name, value in map(_field, head.splitlines()) if name == "content-encoding"]
    kept = body if framed and not coding_names(",".join(codings)) else b""
    return b"".join(_shown(head)) + kept


def _shown(head: bytes) -> Iterator[bytes]:
    """The lines that may be shown; a folded line belongs to the one before it."""
    hidden = False
    for line in head.splitlines(keepends=True):
        if line[:1] not in (b" ", b"\t"):
            hidden = _field(line)[0] in HIDDEN_HEADERS
        if not hidden:
            yield line


def _field(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("latin-1").partition(":")
    return name.strip().lower(), value.strip()
