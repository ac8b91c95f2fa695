"""Takes secrets out of what a target sends back, as it arrives (interface, Results).

A target may echo the credential it was given, as it is or encoded. Each secret is looked for in a fixed set of literal
forms; whatever matches becomes `[redacted]`, and every other byte stays. Literal forms are searched one by one with
`bytes.find`, which at several GB/s a form is faster than one regular expression over all of them, and leaves no copy
of the secret in the cache of `re`.

The result does not depend on how the data was cut into chunks: a place is decided only once the longest form that
could begin there has been seen whole, so up to that many bytes, less one, are held back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence

REPLACEMENT = b"[redacted]"
MIN_SECRET = 8
"""Bytes. A shorter secret would match by chance; only the injected value as a whole is always looked for."""

_SHORT = range(1, 8)
"""Lengths of a form's beginning that are looked up; a longer one is searched for."""

HIDDEN_HEADERS = frozenset({"set-cookie", "set-cookie2"})
"""Never handed to an agent: a session cookie is a new secret that no form knows."""


class Forms:
    """The literal forms of an invocation's secrets. Lives as long as the response; shows nothing of itself."""

    __slots__ = ("_beginnings", "cores", "literals", "longest")

    def __init__(self, secrets: Sequence[bytes], injected: Sequence[bytes] = ()) -> None:
        """`secrets`: those under MIN_SECRET bytes are passed over. `injected`: whole values as they were sent."""
        found: set[bytes] = set()
        for secret in secrets:
            if len(secret) >= MIN_SECRET:
                found.update(_text_forms(secret), _binary_forms(secret))
        for value in injected:
            found.update(_text_forms(value))
            if len(value) >= MIN_SECRET:
                found.update(_binary_forms(value))
        found.discard(b"")
        self.literals = tuple(sorted(found, key=len, reverse=True))
        """Longest first."""
        self.longest = max(map(len, self.literals), default=0)
        cores: list[bytes] = []
        for form in reversed(self.literals):
            if not _any_in(cores, form):
                cores.append(form)
        self.cores = tuple(cores)
        """Those that hold no other. Where none of these stands, none of all does: half of the search."""
        self._beginnings: frozenset[bytes] | None = None

    @property
    def beginnings(self) -> frozenset[bytes]:
        """Of their first bytes, those that are too short to be searched for. Made when asked for: most never are."""
        if self._beginnings is None:
            made = (form[:size] for form in self.literals for size in _SHORT if size < len(form))
            self._beginnings = frozenset(made)
        return self._beginnings

    def stand_in(self, data: bytes) -> bool:
        """Whether any of them stands in `data`."""
        return _any_in(self.cores, data)


def _any_in(forms: Iterable[bytes], data: bytes) -> bool:
    for form in forms:  # noqa: SIM110 - a generator for each look would cost more than the look
        if form in data:
            return True
    return False


class Redactor:
    """Redacts one stream. Owned by the task that reads the response."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._held = b""
        self.count = 0
        """Replacements so far."""

    def feed(self, data: bytes) -> bytes:
        """What of the stream is decided now."""
        stream = self._held + data if self._held else data
        return self._release(stream, max(0, len(stream) - max(0, self._forms.longest - 1)))

    def finish(self) -> bytes:
        """The rest. Nothing may be fed afterwards."""
        return self._release(self._held, len(self._held))

    def _release(self, stream: bytes, decided: int, told: int = 0) -> bytes:
        """Redact what begins before `decided`, and hold the rest. The leftmost match wins, then the longest.

        The first `told` bytes have gone out before: only what stands behind them is returned.
        """
        if not self._forms.stand_in(stream):
            self._held = stream[decided:]
            return stream[told:decided]
        pieces: list[bytes] = []
        at = told
        matches = [(place, literal) for literal in self._forms.literals if (place := stream.find(literal)) >= 0]
        while matches:
            place, literal = min(matches, key=lambda match: match[0])
            if place >= decided:
                break
            pieces += (stream[at:place], REPLACEMENT)
            self.count += 1
            at = place + len(literal)
            matches = list(_moved(matches, stream, at))
        end = max(at, decided)
        pieces.append(stream[at:end])
        self._held = stream[end:]
        return b"".join(pieces)


class LiveRedactor(Redactor):
    """Redacts one stream for a reader who answers what it reads. Only an end that may be the beginning of a form is
    held back; where nothing follows it for a while, `flush` lets it go, or both sides would wait for each other. What
    follows after all is judged together with it: the rest of a form does not go out."""

    def __init__(self, forms: Forms) -> None:
        super().__init__(forms)
        self._told = b""
        """What was let go last: a form may have begun in it."""

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def feed(self, data: bytes) -> bytes:
        """As `Redactor.feed`."""
        told = len(self._told)
        stream = self._told + self._held + data
        open_from = len(stream) - begun(stream, self._forms)
        self._told = stream[open_from:told]
        return self._release(stream, max(open_from, told), told)

    def flush(self) -> bytes:
        """What was held back; more may be fed afterwards."""
        stream, told, before = self._told + self._held, len(self._told), self.count
        gone = self._release(stream, len(stream), told)
        self._told = stream if self.count == before else b""
        return gone


def _moved(matches: Iterable[tuple[int, bytes]], stream: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Each form's first match at or after `at`; forms without one are dropped, the order is kept."""
    for found, literal in matches:
        place = found if found >= at else stream.find(literal, at)
        if place >= 0:
            yield place, literal


def redact(data: bytes, forms: Forms) -> tuple[bytes, int]:
    """Redact data that is whole; also the number of replacements."""
    if not forms.stand_in(data):
        return data, 0
    redactor = Redactor(forms)
    return redactor.feed(data) + redactor.finish(), redactor.count


def redact_cut(data: bytes, forms: Forms) -> bytes:
    """Redact data that was cut off anywhere: an end that may be the beginning of a form goes too."""
    cleaned, _ = redact(data, forms)
    return cleaned[: len(cleaned) - begun(cleaned, forms)]


def begun(data: bytes, forms: Forms) -> int:
    """How many bytes at the end of `data` may be the beginning of a form, and are not all of it."""
    end = data[max(0, len(data) - forms.longest + 1) :] if forms.longest > 1 else b""
    longest = next((size for size in reversed(_SHORT) if size <= len(end) and end[-size:] in forms.beginnings), 0)
    for literal in forms.literals:
        at = end.find(literal[: len(_SHORT) + 1], max(0, len(end) - len(literal) + 1))
        while 0 <= at < len(end) - longest:
            if literal.startswith(end[at:]):
                longest = len(end) - at
            at = end.find(literal[: len(_SHORT) + 1], at + 1)
    return longest


def redact_headers(headers: Iterable[tuple[str, str]], forms: Forms) -> tuple[tuple[tuple[str, str], ...], int]:
    """Response headers as an agent may see them: no cookies set, names and values redacted; also how many times."""
    kept: list[tuple[str, str]] = []
    count = 0
    for header in headers:
        if header[0].lower() in HIDDEN_HEADERS:
            continue
        (name, in_name), (value, in_value) = (_redact_text(part, forms) for part in header)
        kept.append((name, value))
        count += in_name + in_value
    return tuple(kept), count


def _redact_text(text: str, forms: Forms) -> tuple[str, int]:
    """Header text holds bytes, one a character (RFC 9110, 5.5), unless someone decoded it further."""
    coding = "latin-1" if all(character <= "\xff" for character in text) else "utf-8"
    data, count = redact(text.encode(coding, "surrogatepass"), forms)
    return (data.decode(coding, "surrogatepass"), count) if count else (text, 0)


# What JSON writers escape beyond what they must, each for a reason of its own: slashes (PHP), characters of HTML (Go),
# and everything that any embedding might misread (.NET).
_JSON_EXTRA = ("", "/", "<>&", "<>&'\"+`")
# Bytes that none of these writers ever escapes: a secret of nothing else has no further form of that kind.
_JSON_PLAIN = bytes(sorted(set(range(0x20, 0x7F)) - set(b"\\\"/<>&'+`")))
_PERCENT_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"


# What percent-encoders leave alone beyond unreserved characters: nothing, the slash (Python), JavaScript's set.
_PERCENT_SAFE = (b"", b"/", b"!*'()")


def _percent_tables() -> Iterator[tuple[bytes, ...]]:
    """What each byte becomes in each way of percent-encoding, escapes in either case."""
    for escape in (b"%%%02X", b"%%%02x"):
        for safe in _PERCENT_SAFE:
            kept = _PERCENT_PLAIN + b"~" + safe
            yield tuple(bytes((byte,)) if byte in kept else escape % byte for byte in range(256))
        # A form's encoding has `+` for a space and escapes `~` (WHATWG URL, 5.2).
        kept = _PERCENT_PLAIN + b"*"
        table = [bytes((byte,)) if byte in kept else escape % byte for byte in range(256)]
        table[ord(" ")] = b"+"
        yield tuple(table)


_PERCENT = tuple(_percent_tables())


def _text_forms(secret: bytes) -> Iterator[bytes]:
    """Plain, JSON-escaped, percent-encoded."""
    yield secret
    if secret.translate(None, _JSON_PLAIN):
        yield from _json_forms(secret)
    if secret:
        everything = b"%" + secret.hex("%").encode()
        yield everything
        yield everything.upper()
    if not secret.translate(None, _PERCENT_PLAIN):
        return
    for table in _PERCENT:
        yield b"".join([table[byte] for byte in secret])


def _json_forms(secret: bytes) -> Iterator[bytes]:
    try:
        text = secret.decode()
    except UnicodeDecodeError:
        return
    for ascii_only in (True, False):
        escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for extra in _JSON_EXTRA:
            if extra == "/":
                form = escaped.replace("/", "\\/")
            else:
                form = escaped.replace('\\"', "\\u0022") if '"' in extra else escaped
                for character in extra.replace('"', ""):
                    form = form.replace(character, f"\\u{ord(character):04x}")
            yield form.encode()
            yield _upper_escapes(form).encode()


def _upper_escapes(text: str) -> str:
    first, *rest = text.split("\\u")
    return first + "".join("\\u" + part[:4].upper() + part[4:] for part in rest)


def _binary_forms(secret: bytes) -> Iterator[bytes]:
    """Hex in either case; base64 and base64url wherever the secret lies in the encoded data."""
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for shift, partial in ((0, 0), (1, 2), (2, 3)):
        # Only the characters that depend on the secret alone: those it shares with its neighbours vary.
        encoded = base64.b64encode(bytes(shift) + secret)[partial : (shift + len(secret)) * 8 // 6]
        yield encoded
        yield encoded.translate(_TO_BASE64URL)


_TO_BASE64URL = bytes.maketrans(b"+/", b"-_")
