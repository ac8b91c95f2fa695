"""The practice service: a small, honest target on loopback that can lose answers on request.

It is a real process of its own and uses the standard library only. For each request that arrives it appends one JSON
line to its log, and syncs it to disk, *before* it answers. So the log counts arrivals and effects even where nobody
got an answer; it is the demo's second witness, beside the journal.

A log line: `{"n", "at", "method", "path", "query", "headers", "body_bytes", "body_sha256", "authorized", "mode",
"did", "effect", "status"}`. `did` is a word of `Did`; `effect` is the id of the object that this arrival made, or
null; `status` is what is about to be answered, or null where the connection will be cut. `headers` holds those of
`LOGGED_HEADERS` only: never `Authorization`.

Paths (all but `/health` want the bearer token, whose SHA-256 the service is started with; it never holds the token):

- `GET /v1/account`
- `POST /v1/payments` honours `Idempotency-Key`: the same key and body are answered from the store, with another body
  422, while the first is in work 409. `GET /v1/payments?ref=R` lists by operation id, reference or payment id.
- `POST /v1/transfers` has no key. `GET /v1/transfers?ref=R` lists.

A write may say in its body how it is to be answered: `"practice": MODE`, see `Mode`.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

MAX_BODY = 1024 * 1024
READ_TIMEOUT_S = 60.0
LOGGED_HEADERS = ("content-type", "idempotency-key", "x-correlation-id", "x-operation-id")


class Mode(StrEnum):
    """How a write is answered; the caller chooses it with the body field `practice`."""

    OK = "ok"
    APPLY_THEN_HANG_UP = "apply_then_hang_up"
    """The effect happens; the connection closes without a byte of an answer."""
    APPLY_THEN_CUT = "apply_then_cut"
    """The effect happens; the answer breaks off inside its framed body."""
    APPLY_THEN_500 = "apply_then_500"
    """The effect happens; the answer is a complete 500."""
    SLOW = "slow"
    """The effect happens; the answer comes only after `slow_s` seconds (30 without it)."""
    REFUSE = "refuse"
    """No effect; a complete 422."""


class Did(StrEnum):
    """What an arrival led to."""

    READ = "read"
    APPLIED = "applied"
    REPLAYED = "replayed"
    """Answered from the store of keys: no new effect."""
    REFUSED = "refused"
    INCOMPLETE = "incomplete"
    """The connection ended before the whole request was here: no effect."""


@dataclass(frozen=True, slots=True)
class Request:
    """One whole request as it arrived."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    authorized: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """What the service is about to do. `status` is None where it hangs up instead; `body` is the answer lost by it."""

    did: Did
    status: int | None
    body: Mapping[str, Any] | None
    mode: Mode = Mode.OK
    effect: str | None = None
    delay_s: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Kept:
    """What an idempotency key is remembered with. `answered` is False while the first request is in work."""

    body_sha256: str
    status: int
    body: Mapping[str, Any]
    answered: bool = False


def problem(status: int, code: str, message: str, *headers: tuple[str, str]) -> Reply:
    return Reply(Did.REFUSED, status, {"error": {"code": code, "message": message}}, headers=headers)


@dataclass(slots=True)
class Books:
    """What the service knows: two lists of effects and the keys it has seen. Its caller holds the lock."""

    payments: list[dict[str, Any]] = field(default_factory=list)
    transfers: list[dict[str, Any]] = field(default_factory=list)
    keys: dict[str, Kept] = field(default_factory=dict)

    def answer(self, request: Request) -> Reply:
        """Decide on one request and, where it is a write that is accepted, make its effect."""
        if request.path == "/health":
            return Reply(Did.READ, 200, {"ok": True})
        if not request.authorized:
            challenge = ("WWW-Authenticate", 'Bearer realm="practice"')
            return problem(401, "unauthorized", "The bearer token is missing or wrong.", challenge)
        match request.method, request.path:
            case "GET" | "HEAD", "/v1/account":
                return Reply(Did.READ, 200, self.account())
            case "GET" | "HEAD", "/v1/payments":
                return Reply(Did.READ, 200, {"data": listed(self.payments, request.query)})
            case "GET" | "HEAD", "/v1/transfers":
                return Reply(Did.READ, 200, {"data": listed(self.transfers, request.query)})
            case "POST", "/v1/payments":
                return self.pay(request)
            case "POST", "/v1/transfers":
                return self.write(request, self.transfers, "tr")
            case _, "/v1/account" | "/v1/payments" | "/v1/transfers":
                return problem(405, "method_not_allowed", "This path does not take this method.")
            case _:
                return problem(404, "not_found", "There is nothing at this path.")

    def account(self) -> dict[str, Any]:
        return {
            "account": "practice",
            "currency": "EUR",
            "payments": len(self.payments),
            "transfers": len(self.transfers),
        }

    def pay(self, request: Request) -> Reply:
        """A payment, under its key if it has one."""
        key = request.headers.get("idempotency-key")
        if key is None:
            return self.write(request, self.payments, "pay")
        digest = hashlib.sha256(request.body).hexdigest()
        kept = self.keys.get(key)
        if kept is None:
            reply = self.write(request, self.payments, "pay")
            if reply.did is Did.APPLIED and reply.body is not None:
                self.keys[key] = Kept(digest, reply.status or 201, reply.body)
            return reply
        if kept.body_sha256 != digest:
            return problem(422, "idempotency_key_mismatch", "This key was used with another body.")
        if not kept.answered:
            return problem(409, "idempotency_key_in_use", "The first request under this key is still in work.")
        return Reply(Did.REPLAYED, kept.status, kept.body, headers=(("Idempotent-Replayed", "true"),))

    def finished(self, request: Request) -> None:
        """The request that made an effect is no longer in work, whatever came of its answer."""
        kept = self.keys.get(request.headers.get("idempotency-key", ""))
        if kept is not None:
            kept.answered = True

    def write(self, request: Request, rows: list[dict[str, Any]], prefix: str) -> Reply:
        """Make one effect as its body asks, and say how it is to be answered."""
        try:
            asked = json.loads(request.body)
        except ValueError:
            asked = None
        if not isinstance(asked, dict):
            return problem(400, "invalid_json", "The body must be a JSON object.")
        amount = asked.get("amount")
        if not isinstance(amount, int) or isinstance(amount, bool) or amount <= 0:
            return problem(422, "invalid_amount", "The field amount must be a whole number above 0.")
        try:
            mode = Mode(asked.get("practice", "ok"))
        except ValueError:
            return problem(422, "invalid_mode", f"The field practice must be one of {', '.join(Mode)}.")
        if mode is Mode.REFUSE:
            reply = problem(422, "refused", "Refused, as the request asked.")
            return Reply(reply.did, reply.status, reply.body, mode)
        metadata = asked.get("metadata")
        row = {
            "id": f"{prefix}_{len(rows) + 1}",
            "amount": amount,
            "reference": asked.get("reference"),
            "metadata": metadata if isinstance(metadata, dict) else {},
            "status": "succeeded",
        }
        rows.append(row)
        effect = str(row["id"])
        match mode:
            case Mode.APPLY_THEN_HANG_UP:
                return Reply(Did.APPLIED, None, row, mode, effect)
            case Mode.APPLY_THEN_500:
                failure = {"error": {"code": "internal", "message": "Something broke after the effect."}}
                return Reply(Did.APPLIED, 500, failure, mode, effect)
            case Mode.SLOW:
                slow_s = asked.get("slow_s", 30)
                delay_s = float(slow_s) if isinstance(slow_s, int | float) and 0 <= slow_s <= 3600 else 30.0
                return Reply(Did.APPLIED, 201, row, mode, effect, delay_s)
            case _:
                return Reply(Did.APPLIED, 201, row, mode, effect)


def listed(rows: Sequence[Mapping[str, Any]], query: Mapping[str, Sequence[str]]) -> list[Mapping[str, Any]]:
    """All rows, or those that one of the query's `ref` values names: by operation id, reference or id."""
    wanted = {*query.get("ref", ()), *query.get("reference", ())}
    if not wanted:
        return list(rows)
    return [row for row in rows if wanted & {row["id"], row["reference"], row["metadata"].get("op")}]


class ArrivalLog:
    """Appends arrivals to a file, each synced before `append` returns. Whoever calls holds the server's lock."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._count = 0

    def append(self, line: Mapping[str, Any]) -> None:
        self._count += 1
        numbered = {"n": self._count, "at": time.time(), **line}
        os.write(self._fd, json.dumps(numbered, separators=(",", ":")).encode() + b"\n")
        os.fsync(self._fd)


class Practice(ThreadingHTTPServer):
    """The server: one thread a connection, one lock around the books and the log."""

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, port: int, log: Path, token_sha256: str) -> None:
        super().__init__(("127.0.0.1", port), Arrival)
        self.token_sha256 = token_sha256
        self.books = Books()
        self.log = ArrivalLog(log)
        self.lock = threading.Lock()
        self.stopping = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that breaks its connection off is no error here; anything else is one, and is printed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def authorized(self, header: str | None) -> bool:
        scheme, _, token = (header or "").partition(" ")
        digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).hexdigest()
        return scheme.lower() == "bearer" and hmac.compare_digest(digest, self.token_sha256)


class Arrival(BaseHTTPRequestHandler):
    """One connection; each request on it is read whole, decided, logged, and only then answered."""

    protocol_version = "HTTP/1.1"
    server_version = "practice"
    sys_version = ""
    timeout = READ_TIMEOUT_S
    server: Practice

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """The arrival log says it all."""

    def do_GET(self) -> None:
        self.arrived()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET  # noqa: N815 - the base class's names

    def arrived(self) -> None:
        body = self.read_body()
        url = urlsplit(self.path)
        request = Request(
            method=self.command,
            path=url.path,
            query=parse_qs(url.query),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body or b"",
            authorized=self.server.authorized(self.headers.get("Authorization")),
        )
        with self.server.lock:
            reply = Reply(Did.INCOMPLETE, None, None) if body is None else self.server.books.answer(request)
            self.server.log.append(
                {
                    "method": request.method,
                    "path": request.path,
                    "query": url.query,
                    "headers": {name: request.headers[name] for name in LOGGED_HEADERS if name in request.headers},
                    "body_bytes": len(request.body),
                    "body_sha256": hashlib.sha256(request.body).hexdigest(),
                    "authorized": request.authorized,
                    "mode": reply.mode.value,
                    "did": reply.did.value,
                    "effect": reply.effect,
                    "status": reply.status,
                }
            )
        try:
            self.give(reply)
        finally:
            if reply.did is Did.APPLIED:
                with self.server.lock:
                    self.server.books.finished(request)

    def read_body(self) -> bytes | None:
        """The whole body, or None where the connection ends before it, or it is too large or chunked."""
        if "Transfer-Encoding" in self.headers:
            return None
        try:
            length = int(self.headers.get("Content-Length", "0"))
            if not 0 <= length <= MAX_BODY:
                return None
            body = self.rfile.read(length)
        except (ValueError, OSError):
            return None
        return body if len(body) == length else None

    def give(self, reply: Reply) -> None:
        """Answer as decided; a caller that is gone is no matter here, the arrival is in the log."""
        if reply.delay_s:
            self.server.stopping.wait(reply.delay_s)
        if reply.status is None:
            self.hang_up()
            return
        body = json.dumps(reply.body, separators=(",", ":")).encode()
        try:
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in reply.headers:
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            if reply.mode is Mode.APPLY_THEN_CUT:
                self.wfile.write(body[: len(body) // 2])
                self.hang_up()
                return
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def hang_up(self) -> None:
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="practice", description="The practice service, on loopback only.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--log", type=Path, required=True, help="file that takes one JSON line per arrival")
    parser.add_argument("--token-sha256", required=True, metavar="HEX", help="SHA-256 of the bearer token it accepts")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. The first line on stdout is `{"port": N, "pid": N}` once it listens."""
    args = arguments(argv)
    with Practice(args.port, args.log, args.token_sha256) as server:

        def stop(_signal: int, _frame: object) -> None:
            server.stopping.set()
            threading.Thread(target=server.shutdown, daemon=True).start()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        print(json.dumps({"port": server.port, "pid": os.getpid()}), flush=True)
        server.serve_forever(poll_interval=0.1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
