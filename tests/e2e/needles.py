"""Looks for a secret wherever it could have got to: as it stands, and in the forms that programs commonly give it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote_from_bytes

FRAGMENT = 8
"""Bytes of a secret's beginning that count as having found it: what is left where something was cut in its middle."""


class Needles:
    """Each secret by a name, with all its forms."""

    def __init__(self, **secrets: str) -> None:
        self._forms = {name: tuple(forms(secret.encode())) for name, secret in secrets.items()}

    def found(self, places: Iterable[tuple[str, bytes]]) -> list[str]:
        """Where a secret is found, and in which form."""
        return [
            f"{name} in {place}, as {form}"
            for place, content in places
            for name, known in self._forms.items()
            for form, needle in known
            if needle in content
        ]


def forms(secret: bytes) -> Iterator[tuple[str, bytes]]:
    yield "its first bytes", secret[:FRAGMENT]
    yield "it stands", secret
    yield "UTF-16", secret.decode().encode("utf-16-le")
    yield "hex", secret.hex().encode()
    yield "upper-case hex", secret.hex().upper().encode()
    yield "percent-encoding", "".join(f"%{byte:02X}" for byte in secret).encode()
    yield "lenient percent-encoding", quote_from_bytes(secret, safe="").encode()
    for shift, leading in ((0, 0), (1, 2), (2, 3)):
        # What the secret's own bytes decide: the characters at its ends are shared with whatever stands beside it.
        encoded = base64.b64encode(bytes(shift) + secret)[leading : (shift + len(secret)) * 8 // 6]
        yield f"base64 shifted by {shift}", encoded
        yield f"base64url shifted by {shift}", encoded.translate(bytes.maketrans(b"+/", b"-_"))


def files(root: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below a directory. One that goes meanwhile is no place to be found in."""
    for path in sorted(root.rglob("*")):
        try:
            if path.is_file():
                yield str(path.relative_to(root)), path.read_bytes()
        except FileNotFoundError:
            continue


def texts(name: str, said: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for number, text in enumerate(said):
        yield f"{name} {number}", text.encode("utf-8", "surrogateescape")


def process(pid: int) -> Iterator[tuple[str, bytes]]:
    """What `/proc` shows of a process to whoever may look: its environment and arguments, of each thread too."""
    for path in (Path(f"/proc/{pid}"), *Path(f"/proc/{pid}/task").iterdir()):
        for name in ("environ", "cmdline", "comm"):
            try:
                yield str(path / name), (path / name).read_bytes()
            except PermissionError:
                continue  # closed to the user's other processes
