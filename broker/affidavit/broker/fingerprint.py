"""The three digests of interface, section 4: `sha256:` over RFC 8785 canonical JSON; none holds a secret.

Each answers a question of its own, and each is told apart by the `digest` member of its document. A body enters as
its length and SHA-256. Header names enter in lower case, sorted; the order of equal names is kept, for it means
something (RFC 9110, 5.3).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HttpDispatch:
    """Everything bound at approval of an HTTP action, as it goes out, operation id and key planted (R14)."""

    method: str
    url: str
    """The one spelling of `target.HttpTarget.url`."""
    headers: Headers
    """The agent's and the planted ones; never the injected."""
    body: bytes = field(repr=False)
    credential_id: str | None
    credential_version: int | None
    injection: str | None
    contract_id: str
    contract_digest: str
    idempotency_key: str | None
    proxy: str | None = None
    """The proxy's route, as `https://proxy.example:3128`; None for a direct connection."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What the caller asked: the same for as long as it is the same operation."""

    method: str
    url: str
    headers: Headers
    body: bytes = field(repr=False)
    credential: str | None
    """As named; None where the caller named none."""
    idempotency_key: str | None
    """As given; None where the broker makes one."""


@dataclass(frozen=True, slots=True)
class HttpEffect:
    """What would happen remotely, under whatever name it is asked for."""

    method: str
    url: str
    body: bytes = field(repr=False)
    """As given, before anything was planted."""
    credential_id: str | None


def dispatch_fingerprint(dispatch: HttpDispatch) -> str:
    """Is what goes out what was approved? Recomputed before the first write (R15)."""
    return digest(
        "dispatch",
        {
            "kind": "http",
            "method": dispatch.method,
            "url": dispatch.url,
            "headers": _headers(dispatch.headers),
            "body": _body(dispatch.body),
            "credential": {
                "id": dispatch.credential_id,
                "version": dispatch.credential_version,
                "injection": dispatch.injection,
            },
            "contract": {"id": dispatch.contract_id, "digest": dispatch.contract_digest},
            "idempotency_key": dispatch.idempotency_key,
            "proxy": dispatch.proxy,
        },
    )


def request_fingerprint(request: HttpRequest) -> str:
    """Is this the same operation (R44, R63)?"""
    return digest(
        "request",
        {
            "kind": "http",
            "method": request.method,
            "url": request.url,
            "headers": _headers(request.headers),
            "body": _body(request.body),
            "credential": request.credential,
            "idempotency_key": request.idempotency_key,
        },
    )


def effect_digest(effect: HttpEffect) -> str:
    """Does an agent ask for the same effect again under another name?"""
    return digest(
        "effect",
        {
            "kind": "http",
            "method": effect.method,
            "url": effect.url,
            "body": hashlib.sha256(effect.body).hexdigest(),
            "credential": effect.credential_id,
        },
    )


@dataclass(frozen=True, slots=True)
class SshHopBound:
    """One SSH server on the way, as it is bound at approval."""

    entry: str
    address: str
    port: int
    user: str
    host_key: str | None
    """`sha256:` of the pinned key's blob; None while a probe must come first."""
    credential_id: str | None
    credential_version: int | None


@dataclass(frozen=True, slots=True)
class SshDispatch:
    """Everything bound at approval of a command, as it goes out (R14)."""

    target: SshHopBound
    jumps: tuple[SshHopBound, ...]
    command: str
    stdin: bytes | None = field(repr=False)
    """None for a stream, which cannot be shown."""
    env: Headers
    contract_id: str
    contract_digest: str
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class SshRequest:
    """What the caller asked: the same for as long as it is the same operation."""

    host: str
    command: str
    stdin: bytes | None = field(repr=False)
    env: Headers
    credential: str | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class SshEffect:
    """What would happen remotely, under whatever name it is asked for."""

    host: str
    command: str
    stdin: bytes | None = field(repr=False)
    env: Headers


def ssh_dispatch_fingerprint(dispatch: SshDispatch) -> str:
    """As `dispatch_fingerprint`, of a command."""
    return digest(
        "dispatch",
        {
            "kind": "ssh",
            "target": _hop(dispatch.target),
            "jumps": [_hop(jump) for jump in dispatch.jumps],
            "command": dispatch.command,
            "stdin": _stdin(dispatch.stdin),
            "env": _env(dispatch.env),
            "contract": {"id": dispatch.contract_id, "digest": dispatch.contract_digest},
            "idempotency_key": dispatch.idempotency_key,
        },
    )


def ssh_request_fingerprint(request: SshRequest) -> str:
    """As `request_fingerprint`, of a command."""
    return digest(
        "request",
        {
            "kind": "ssh",
            "host": request.host,
            "command": request.command,
            "stdin": _stdin(request.stdin),
            "env": _env(request.env),
            "credential": request.credential,
            "idempotency_key": request.idempotency_key,
        },
    )


def ssh_effect_digest(effect: SshEffect) -> str:
    """As `effect_digest`, of a command."""
    return digest(
        "effect",
        {
            "kind": "ssh",
            "host": effect.host,
            "command": effect.command,
            "stdin": _stdin(effect.stdin),
            "env": _env(effect.env),
        },
    )


def _hop(hop: SshHopBound) -> dict[str, Any]:
    return {
        "entry": hop.entry,
        "address": hop.address,
        "port": hop.port,
        "user": hop.user,
        "host_key": hop.host_key,
        "credential": {"id": hop.credential_id, "version": hop.credential_version},
    }


def _stdin(data: bytes | None) -> Any:
    return "stream" if data is None else _body(data)


def _env(env: Headers) -> list[list[str]]:
    return sorted([name, value] for name, value in env)


def _headers(headers: Headers) -> list[list[str]]:
    lowered = [[name.lower(), value] for name, value in headers]
    return sorted(lowered, key=lambda header: header[0])


def _body(body: bytes) -> dict[str, Any]:
    return {"length": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def digest(kind: str, document: dict[str, Any]) -> str:
    """`sha256:` of a JSON document that names its kind, in the canonical form of RFC 8785.

    The document's names are ours, in ASCII; its values are texts, whole numbers, truth values, nulls and lists of them.
    Of such a document the standard library's sorted writer gives that very form, and takes a tenth of the time.
    """
    canonical = _WRITER.encode({"digest": kind, **document})
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


_WRITER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
