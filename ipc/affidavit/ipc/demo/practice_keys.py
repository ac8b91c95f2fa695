"""The practice service's routes under `/v1/keys/`: how differently real services treat the key of a repeat.

Each is a `POST` that makes one effect, lists it at `GET /v1/keys?ref=R`, and takes the fields of a payment. The key is
in `Idempotency-Key` where nothing else is said.

- `replays-errors`: the first answer is stored and comes back, a 500 too; another body 422; in work 409.
- `redrives`: with `"fails": N` the first N runs end in a 500 before their effect; a repeat carries the work on, and
  once it is done is answered with it.
- `current-state`, key in the parameter `request_id`: a repeat is answered with the object as it is by then (its status
  moves on from `processing` to `succeeded`), whatever its body.
- `drops-changed`, key in the body field `dedup_id`: a repeat is answered as a success and does nothing, with another
  body too.
- `in-use`: while the first request runs, 409 with `Retry-After`, and nothing is stored of it; then as a payment. With
  `"practice": "slow"` the first one runs until `POST /v1/keys/release`.
- `expires`: a key is known for as many seconds as the first request's header `Practice-Retention` says (a day
  without it); from then on it is a new one, and a repeat a second effect.
- `quoted`: the key must be there, as a structured field's string (RFC 9651, 3.3.3), in quotes.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from affidavit.ipc.demo.practice_exchange import Did, Reply, Request, asked, listed, problem, write

PREFIX = "/v1/keys"
RETENTION_S = 86_400.0
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"')


@dataclass(slots=True)
class Kept:
    """What a key is remembered with: the first request, and the reply that it got."""

    body_sha256: str
    reply: Reply
    until: float
    """On the clock of `Keys`: when the key is forgotten."""
    answered: bool = False
    """Whether the first request is no longer in work."""
    fails_left: int = 0
    row: dict[str, Any] | None = None


@dataclass(slots=True)
class Keys:
    """The keys that each route knows, and what was made under them. Its caller holds the lock."""

    clock: Callable[[], float]
    """Seconds that only go forward."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    kept: dict[tuple[str, str], Kept] = field(default_factory=dict)
    """By route and key."""
    held: list[threading.Event] = field(default_factory=list)

    def answer(self, request: Request) -> Reply:
        """Decide on a request under PREFIX."""
        route = request.path.removeprefix(PREFIX).removeprefix("/")
        match request.method, route:
            case "GET" | "HEAD", "":
                return Reply(Did.READ, 200, {"data": listed(self.rows, request.query)})
            case "POST", "release":
                return self.release()
            case "POST", _ if route in ROUTES:
                return ROUTES[route](self, request)
            case _, _ if route in ("", "release", *ROUTES):
                return problem(405, "method_not_allowed", "This path does not take this method.")
            case _:
                return problem(404, "not_found", "There is nothing at this path.")

    def release(self) -> Reply:
        """End every slow answer."""
        released = len(self.held)
        for event in self.held:
            event.set()
        self.held.clear()
        return Reply(Did.READ, 200, {"released": released})

    def finished(self, request: Request) -> None:
        """The request that made an effect is no longer in work, whatever came of its answer."""
        for (route, key), kept in self.kept.items():
            if request.path == f"{PREFIX}/{route}" and key in (_header(request), _unquoted(request)):
                kept.answered = True

    def replays_errors(self, request: Request) -> Reply:
        return self._stored("replays-errors", _header(request), request)

    def quoted(self, request: Request) -> Reply:
        key = _unquoted(request)
        if key is None:
            return problem(400, "invalid_key", "Idempotency-Key must be there, as a string in double quotes.")
        return self._stored("quoted", key, request)

    def in_use(self, request: Request) -> Reply:
        return self._stored("in-use", _header(request), request)

    def expires(self, request: Request) -> Reply:
        written = request.headers.get("practice-retention", str(RETENTION_S))
        try:
            retention_s = float(written)
        except ValueError:
            retention_s = math.nan
        if not 0 <= retention_s <= RETENTION_S:
            return problem(400, "invalid_retention", "Practice-Retention must be a number of seconds, at most a day.")
        return self._stored("expires", _header(request), request, retention_s=retention_s)

    def redrives(self, request: Request) -> Reply:
        key = _header(request)
        if key is None:
            return self._write(request)
        kept = self._known("redrives", key)
        if kept is None:
            body = asked(request)
            if isinstance(body, Reply):
                return body
            fails = body.get("fails", 0)
            if not isinstance(fails, int) or isinstance(fails, bool) or not 0 <= fails <= 100:
                return problem(422, "invalid_fails", "The field fails must be a whole number from 0 to 100.")
            kept = Kept(_digest(request), _BROKE_OFF, self.clock() + RETENTION_S, fails_left=fails)
            self.kept["redrives", key] = kept
        elif kept.body_sha256 != _digest(request):
            return _MISMATCH
        elif kept.row is not None:
            return Reply(Did.REPLAYED, 201, dict(kept.row))
        if kept.fails_left:
            kept.fails_left -= 1
            return _BROKE_OFF
        reply = self._write(request)
        if reply.did is Did.APPLIED:
            kept.row = self.rows[-1]
        return reply

    def current_state(self, request: Request) -> Reply:
        key = next(iter(request.query.get("request_id", ())), None)
        kept = self._known("current-state", key) if key is not None else None
        if kept is not None and kept.row is not None:
            kept.row["status"] = "succeeded"
            return Reply(Did.REPLAYED, 200, dict(kept.row))
        reply = self._write(request)
        if reply.did is not Did.APPLIED:
            return reply
        row = self.rows[-1]
        row["status"] = "processing"
        if key is not None:
            self.kept["current-state", key] = Kept("", reply, self.clock() + RETENTION_S, row=row)
        return reply if reply.status == 500 else replace(reply, body=dict(row))

    def drops_changed(self, request: Request) -> Reply:
        body = asked(request)
        if isinstance(body, Reply):
            return body
        key = body.get("dedup_id")
        if not isinstance(key, str):
            return self._write(request)
        kept = self._known("drops-changed", key)
        if kept is not None and kept.row is not None:
            return Reply(Did.DROPPED, 200, {"id": kept.row["id"], "accepted": True})
        reply = self._write(request)
        if reply.did is Did.APPLIED:
            row = self.rows[-1]
            self.kept["drops-changed", key] = Kept("", reply, self.clock() + RETENTION_S, row=row)
        return reply

    def _stored(self, route: str, key: str | None, request: Request, *, retention_s: float = RETENTION_S) -> Reply:
        """As most services have it: the first answer comes back, for the same body, once it was given."""
        if key is None:
            return self._write(request)
        kept = self._known(route, key)
        if kept is None:
            reply = self._write(request)
            if reply.did is Did.APPLIED:
                self.kept[route, key] = Kept(_digest(request), reply, self.clock() + retention_s)
            return reply
        if kept.body_sha256 != _digest(request):
            return _MISMATCH
        if not kept.answered:
            return _IN_USE
        status = kept.reply.status or 201
        return Reply(Did.REPLAYED, status, kept.reply.body, headers=(("Idempotent-Replayed", "true"),))

    def _known(self, route: str, key: str) -> Kept | None:
        kept = self.kept.get((route, key))
        if kept is not None and kept.until <= self.clock():
            del self.kept[route, key]
            return None
        return kept

    def _write(self, request: Request) -> Reply:
        reply = write(request, self.rows, "key")
        if not reply.delay_s:
            return reply
        self.held.append(threading.Event())
        return replace(reply, hold=self.held[-1])


ROUTES: dict[str, Callable[[Keys, Request], Reply]] = {
    "replays-errors": Keys.replays_errors,
    "redrives": Keys.redrives,
    "current-state": Keys.current_state,
    "drops-changed": Keys.drops_changed,
    "in-use": Keys.in_use,
    "expires": Keys.expires,
    "quoted": Keys.quoted,
}

_MISMATCH = problem(422, "idempotency_key_mismatch", "This key was used with another body.")
_IN_USE = problem(
    409, "idempotency_key_in_use", "The first request under this key is still in work.", ("Retry-After", "1")
)
_BROKE_OFF = replace(problem(500, "internal", "Something broke before the effect."), did=Did.FAILED)


def _header(request: Request) -> str | None:
    return request.headers.get("idempotency-key")


def _unquoted(request: Request) -> str | None:
    match = _QUOTED.fullmatch(_header(request) or "")
    return re.sub(r'\\(["\\])', r"\1", match[1]) if match else None


def _digest(request: Request) -> str:
    return hashlib.sha256(request.body).hexdigest()
