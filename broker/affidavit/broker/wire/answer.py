"""Reads one answer from the bytes of a peer: what is proven of it, and whether it is framed to its end.

No I/O and no clock; however the bytes are cut into pieces, the same facts come out. Heads are checked here, line by
line and more strictly than h11 does, since whatever is read too kindly may be taken for a complete authentic answer;
h11 then takes the body apart.
"""

from __future__ import annotations

import re
from enum import Enum, auto

import h11

from affidavit.broker.limits import Limits
from affidavit.broker.wire.link import Ending
from affidavit.broker.wire.port import Fault

HEAD_LIMIT = Limits().response_head
DIAGNOSTIC_LIMIT = Limits().diagnostic

_PREFIX = b"HTTP/1."
_FIRST_DIGIT = 9
"""Where a status begins in a status line; the digit tells a 1xx head from a final one."""
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?")
"""RFC 9112, section 4: no other version is ours, and only 100 to 599 is a status."""
_FIELD_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)")
"""RFC 9112, section 5: no folded lines, no space before the colon, no control characters."""
_LENGTH = re.compile(rb"[0-9]{1,18}")
_CHUNKS_END = b"\r\n\r\n"
"""How every chunked body ends, with trailers or without (RFC 9112, section 7.1); h11 takes a bare LF as well."""

_OF_ENDING = {
    Ending.FIN: Fault.CLOSED,
    Ending.CLOSE_NOTIFY: Fault.CLOSED,
    Ending.RAGGED: Fault.RAGGED,
    Ending.RESET: Fault.RESET,
    Ending.ALERT: Fault.RESET,
}


class Place(Enum):
    """How far the final answer has come; 1xx heads do not count (R34)."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class _Broken(Exception):
    """The answer does not count, for this fault and reason."""

    def __init__(self, fault: Fault, why: str) -> None:
        super().__init__(why)
        self.fault = fault
        self.why = why


class Answer:
    """One answer as it comes: `feed` it bytes, then tell it how the stream came to its `end`.

    `framing` is an h11 client connection that has sent the request. Public attributes are those of `HttpEvidence`, but
    `observation` is only the reason why an answer is malformed. Nothing is read after `ended`.
    """

    def __init__(self, method: str, framing: h11.Connection, *, close_completes: bool = False) -> None:
        self.place = Place.NOTHING
        self.status_line = False
        self.status: int | None = None
        self.headers: tuple[tuple[str, str], ...] = ()
        self.starts_at = 0
        """Offset in the stream at which the answer begins, 1xx heads being passed over."""
        self.head_ends_at: int | None = None
        """Offset at which the final head ends; None before it is complete."""
        self.body_bytes = 0
        self.complete = False
        self.completion: str | None = None
        self.fault: Fault | None = None
        self.observation: str | None = None
        self._method = method
        self._framing = framing
        self._close_completes = close_completes
        self._framed_by: str | None = None
        """How the end of the body will be told; None before the final head is complete."""
        self._head = bytearray()
        """The head being read; after a final head, nothing."""
        self._checked = 0
        """Length of the whole lines in it, which are in order."""
        self._version = b""
        self._code = 0
        """From the status line of the head being read; 0 before it."""
        self._fields: list[tuple[bytes, bytes]] = []
        self._first = bytearray()
        """Once the final head is complete: it and its body, framing removed, as far as they are told of."""
        self._last = b""
        """Of a chunked body the last bytes that came, as many as its end has."""

    @property
    def anything_final(self) -> bool:
        """A byte that is not of a 1xx head has come."""
        return self.place is not Place.NOTHING

    @property
    def ended(self) -> bool:
        return self.complete or self.fault is not None

    @property
    def leaves_open(self) -> bool:
        """Whether the next answer can be told from this one: the stream stays open for it, and nothing came after this
        one's exact end.

        False after an answer without a body, where a peer that sends one nevertheless would not be seen in time.
        """
        done = self._framing.our_state is h11.DONE and self._framing.their_state is h11.DONE
        return self.complete and done and not self._framing.trailing_data[0]

    @property
    def diagnostic(self) -> bytes:
        """The first bytes of an answer that is not complete: of the body those that `feed` returned."""
        if self.complete or self.place is Place.NOTHING:
            return b""
        return bytes(self._first or self._head[:DIAGNOSTIC_LIMIT])

    def feed(self, data: bytes) -> list[bytes]:
        """Read on. Returns the parts of the body that came, framing removed."""
        parts: list[bytes] = []
        try:
            if not self.ended and self.place is not Place.BODY:
                self._head += data
                data = self._read_head()
            if not self.ended and self.place is Place.BODY:
                self._read_body(data, parts)
        except _Broken as broken:
            self.place = Place.HEAD if self.place is Place.NOTHING else self.place
            self.fault, self.observation = broken.fault, broken.why
        return parts

    def end(self, ending: Ending) -> None:
        """The stream is over, in this way."""
        if self.ended:
            return
        by_close = self._framed_by == "close"
        if by_close and ending is Ending.CLOSE_NOTIFY:
            self._complete("close_notify")
        elif by_close and ending is Ending.FIN and self._close_completes:
            self._complete("close")
        elif by_close and ending is Ending.FIN:
            self.fault = Fault.FRAMING
            self.observation = "closed in order, which proves no end of a body without a length"
        else:
            if self._head and self._head[_FIRST_DIGIT : _FIRST_DIGIT + 1] != b"1":
                self.place = Place.HEAD
            self.fault = _OF_ENDING[ending]

    def _complete(self, completion: str) -> None:
        self.complete = True
        self.completion = completion

    def _read_head(self) -> bytes:
        """Take whole lines; returns what follows the final head."""
        while True:
            if self._code == 0:
                self._foresee()
            end = self._head.find(b"\n", self._checked)
            if max(end, len(self._head) - 1 if end < 0 else 0) >= HEAD_LIMIT:
                raise _Broken(Fault.MALFORMED, f"the head is over {HEAD_LIMIT} bytes")
            if end < 0:
                return b""
            line = bytes(self._head[self._checked : end])
            self._checked = end + 1
            if not line.endswith(b"\r"):
                raise _Broken(Fault.MALFORMED, "a line of the head ends without CR")
            if self._code == 0:
                self._take_status_line(line[:-1])
            elif line != b"\r":
                self._take_field_line(line[:-1])
            elif self._code < 200:
                self._pass_over()
            else:
                return self._finish_head()

    def _foresee(self) -> None:
        """Tell as early as its bytes allow what a head is going to be, for peers that send no line at all."""
        if not _PREFIX.startswith(bytes(self._head[: len(_PREFIX)])):
            raise _Broken(Fault.MALFORMED, "not HTTP/1")
        if len(self._head) > _FIRST_DIGIT and self._head[_FIRST_DIGIT : _FIRST_DIGIT + 1] != b"1":
            self.place = Place.HEAD

    def _take_status_line(self, line: bytes) -> None:
        match = _STATUS_LINE.fullmatch(line)
        if match is None:
            raise _Broken(Fault.MALFORMED, "not a status line of HTTP/1 with a status from 100 to 599")
        self._version = match[1]
        self._code = int(match[2])
        if self._code == 101:
            raise _Broken(Fault.UPGRADE, "101, which was not asked for")
        self.status_line = self._code >= 200

    def _take_field_line(self, line: bytes) -> None:
        match = _FIELD_LINE.fullmatch(line)
        if match is None:
            raise _Broken(Fault.MALFORMED, "a header line is malformed")
        self._fields.append((match[1].lower(), match[2].strip(b" \t")))

    def _pass_over(self) -> None:
        """A 1xx head is complete and settles nothing."""
        self.starts_at += self._checked
        del self._head[: self._checked]
        self._checked = 0
        self._code = 0
        self._fields.clear()

    def _finish_head(self) -> bytes:
        completion = framing(self._method, self._version, self._code, self._fields)
        raw, rest = bytes(self._head[: self._checked]), bytes(self._head[self._checked :])
        try:
            self._framing.receive_data(raw)
            self._framing.next_event()
        except h11.RemoteProtocolError:
            raise _Broken(Fault.MALFORMED, "the head is malformed") from None
        self._head.clear()
        self._first += raw[:DIAGNOSTIC_LIMIT]
        self.head_ends_at = self.starts_at + len(raw)
        self.status = self._code
        self.headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in self._fields)
        self.place = Place.BODY
        self._framed_by = completion
        if completion in ("head", "no-content"):
            self._complete(completion)
        return rest

    def _read_body(self, data: bytes, parts: list[bytes]) -> None:
        assert self._framed_by is not None
        last = b""
        if self._framed_by == "chunked":
            last = self._last + data
            self._last = last[-len(_CHUNKS_END) :]
        try:
            if data:
                self._framing.receive_data(data)
            while True:
                event = self._framing.next_event()
                if isinstance(event, h11.Data):
                    parts.append(bytes(event.data))
                    self.body_bytes += len(event.data)
                    self._first += event.data[: DIAGNOSTIC_LIMIT - len(self._first)]
                elif isinstance(event, h11.EndOfMessage):
                    excess = len(self._framing.trailing_data[0])
                    if self._framed_by == "chunked" and not last[: len(last) - excess].endswith(_CHUNKS_END):
                        raise _Broken(Fault.MALFORMED, "the chunks of the body end in a line without CR")
                    self._complete(self._framed_by)
                    return
                else:
                    return
        except h11.RemoteProtocolError:
            raise _Broken(Fault.MALFORMED, "the chunks of the body are broken") from None


def framing(method: str, version: bytes, status: int, fields: list[tuple[bytes, bytes]]) -> str:
    """How the end of a body is told, in the words of `HttpEvidence.completion` (RFC 9112, section 6.3).

    `close` means that only the end of the stream tells it. Raises _Broken where two readers could come to two ends.
    """
    if method == "CONNECT":
        return "head"  # Success has no body whatever its lengths (RFC 9110, 9.3.6); after a refusal nothing is read.
    lengths = [value for name, value in fields if name == b"content-length"]
    codings = [value.lower() for name, value in fields if name == b"transfer-encoding"]
    if lengths and codings:
        raise _Broken(Fault.FRAMING, "Content-Length with Transfer-Encoding")
    if len(lengths) > 1 or (lengths and b"," in lengths[0]):
        raise _Broken(Fault.FRAMING, "more than one Content-Length")
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise _Broken(Fault.MALFORMED, "Content-Length is not a length")
    if codings and (codings != [b"chunked"] or version == b"0"):
        raise _Broken(Fault.FRAMING, "a Transfer-Encoding other than chunked")
    if method == "HEAD":
        return "head"
    if status in (204, 304):
        return "no-content"
    if codings:
        return "chunked"
    return "content-length" if lengths else "close"
