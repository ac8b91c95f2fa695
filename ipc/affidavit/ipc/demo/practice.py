"""The practice service: a small, honest target on loopback that can lose answers on request.

It is a real process of its own and uses the standard library only. For each request that arrives it appends one JSON
line to its log, and syncs it to disk, *before* it answers. So the log counts arrivals and effects even where nobody
got an answer; it is the demo's second witness, beside the journal.

A log line: `{"n", "at", "method", "path", "query", "headers", "body_bytes", "body_sha256", "authorized", "mode",
"did", "effect", "effects", "status"}`. `did` is a word of `Did`; `effect` is the id of the object that this arrival
made, or null; `effects` are the ids of all that it made, which a batch may make several of; `status` is what is about
to be answered, or null where the connection will be cut. `headers` holds those of `LOGGED_HEADERS` only: never
`Authorization`.

Paths (all but `/health` want the bearer token, whose SHA-256 the service is started with; it never holds the token):

- `GET /v1/account`
- `POST /v1/payments` honours `Idempotency-Key`: the same key and body are answered from the store, with another body
  422, while the first is in work 409. `GET /v1/payments?ref=R` lists by operation id, reference or payment id.
- `POST /v1/transfers` has no key. `GET /v1/transfers?ref=R` lists.
- `/v1/keys/...`: how else services treat a key (`practice_keys`); `/v1/jobs`: work that is accepted and polled
  (`practice_jobs`); `/v1/batches`: a result for each item (`practice_batches`).

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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from affidavit.ipc.demo import practice_batches, practice_jobs, practice_keys
from affidavit.ipc.demo.practice_batches import Batches
from affidavit.ipc.demo.practice_exchange import Did, Mode, Reply, Request, listed, problem, write
from affidavit.ipc.demo.practice_jobs import Jobs
from affidavit.ipc.demo.practice_keys import Keys

MAX_BODY = 1024 * 1024
READ_TIMEOUT_S = 60.0
LOGGED_HEADERS = ("content-type", "idempotency-key", "practice-retention", "x-correlation-id", "x-operation-id")


@dataclass(slots=True)
class Kept:
    """What an idempotency key is remembered with. `answered` is False while the first request is in work."""

    body_sha256: str
    status: int
    body: Mapping[str, Any]
    answered: bool = False


@dataclass(slots=True)
class Books:
    """What the service knows: its effects, and the keys it has seen. Its caller holds the lock."""

    payments: list[dict[str, Any]] = field(default_factory=list)
    transfers: list[dict[str, Any]] = field(default_factory=list)
    keys: dict[str, Kept] = field(default_factory=dict)
    other_keys: Keys = field(default_factory=lambda: Keys(time.monotonic))
    jobs: Jobs = field(default_factory=Jobs)
    batches: Batches = field(default_factory=Batches)

    def answer(self, request: Request) -> Reply:
        """Decide on one request and, where it is a write that is accepted, make its effect."""
        if request.path == "/health":
            return Reply(Did.READ, 200, {"ok": True})
        if not request.authorized:
            challenge = ("WWW-Authenticate", 'Bearer realm="practice"')
            return problem(401, "unauthorized", "The bearer token is missing or wrong.", challenge)
        for prefix, room in (
            (practice_keys.PREFIX, self.other_keys),
            (practice_jobs.PREFIX, self.jobs),
            (practice_batches.PREFIX, self.batches),
        ):
            if request.path == prefix or request.path.startswith(f"{prefix}/"):
                return room.answer(request)
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
                return write(request, self.transfers, "tr")
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
            return write(request, self.payments, "pay")
        digest = hashlib.sha256(request.body).hexdigest()
        kept = self.keys.get(key)
        if kept is None:
            reply = write(request, self.payments, "pay")
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
        self.other_keys.finished(request)
        kept = self.keys.get(request.headers.get("idempotency-key", ""))
        if kept is not None and request.path == "/v1/payments":
            kept.answered = True


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
                    "effects": reply.made,
                    "status": reply.status,
                }
            )
        if reply.delay_s:
            (reply.hold or self.server.stopping).wait(reply.delay_s)
        if reply.did is Did.APPLIED:
            # Before the answer: whoever has it may use the key again at once.
            with self.server.lock:
                self.server.books.finished(request)
        self.give(reply)

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
