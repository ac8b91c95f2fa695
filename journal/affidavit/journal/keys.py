"""The keys that the journal derives from its own: one for the database, one for digests, one for the dictionary."""

from __future__ import annotations

import hmac

from affidavit.journal.encoding import fields


class JournalKeys:
    """Digests of clear columns, so that short values cannot be guessed without the journal's key."""

    __slots__ = ("_digests", "_names")

    def __init__(self, key: bytes) -> None:
        # one HMAC per purpose over a uniform 32-byte key (HKDF's expand step, RFC 5869)
        self._digests = hmac.digest(key, b"affidavit journal digests v1\x01", "sha256")
        self._names = hmac.digest(key, b"affidavit journal names v1\x01", "sha256")

    def digest(self, domain: str, data: bytes) -> str:
        """HMAC-SHA-256 over domain and data, in hex."""
        return hmac.digest(self._digests, fields(domain.encode(), data), "sha256").hex()

    def name_lookup(self, kind: str, text: bytes) -> bytes:
        """What finds a name in the sealed dictionary."""
        return hmac.digest(self._names, fields(kind.encode(), text), "sha256")
