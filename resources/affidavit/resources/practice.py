"""Contracts for the practice service of the demo, which listens on loopback at a port of its own each time."""

from __future__ import annotations

_SOURCE = """source = "The practice service, part of Affidavit"
checked = 2026-11-30
"""

_PAYMENTS_CREATE = """id = "practice.payments.create"
title = "Create a payment"
{source}
[match]
kind = "http"
method = ["POST"]
url = "http://127.0.0.1:{port}/v1/payments"

[effect]
kind = "write"

[correlation]
operation = "/metadata/op"

[idempotency]
header = "Idempotency-Key"
max_length = 255
scope = "account"
retention = "24h"
mismatch = "rejected"
"""
# No look-up: with one the broker would settle a lost answer by itself, and the tour is about the person who does.

_TRANSFERS_CREATE = """id = "practice.transfers.create"
title = "Send a transfer"
{source}
[match]
kind = "http"
method = ["POST"]
url = "http://127.0.0.1:{port}/v1/transfers"

[effect]
kind = "write"
"""

_ACCOUNT_READ = """id = "practice.account.read"
title = "Read the account"
{source}
[match]
kind = "http"
method = ["GET"]
url = "http://127.0.0.1:{port}/v1/account"

[effect]
kind = "read"

[read]
purpose = "refresh"
"""

_CLOSED_READ = """id = "practice.closed.read"
title = "Read from a port where nobody listens"
{source}
[match]
kind = "http"
method = ["GET"]
url = "http://127.0.0.1:{closed_port}/**"

[effect]
kind = "read"
"""

_KEYED = """id = "practice.keys.{name}"
title = "{title}"
{source}
[match]
kind = "http"
method = ["POST"]
url = "http://127.0.0.1:{port}/v1/keys/{route}"

[effect]
kind = "write"

[correlation]
operation = "/metadata/op"

[idempotency]
{terms}

[reconcile]
url = "http://127.0.0.1:{port}/v1/keys?ref={{operation_id}}"
each = "/data"
where = {{ pointer = "/metadata/op", equals = "{{operation_id}}" }}
state = "/status"
committed = ["succeeded"]
pending = ["processing"]
"""

_IN_HEADER = 'header = "Idempotency-Key"'
_REJECTED = 'mismatch = "rejected"'
_IN_USE = 'in_use = [{ status = 409, pointer = "/error/code", equals = "idempotency_key_in_use" }]'

_KEYS = {
    "replays-errors": (
        "A write whose stored error comes back",
        (_IN_HEADER, 'retention = "24h"', _REJECTED, "replays_errors = true", _IN_USE),
    ),
    "redrives": (
        "A write that a repeat carries on",
        (_IN_HEADER, 'retention = "24h"', _REJECTED),
    ),
    "current-state": (
        "A write whose repeat shows the present state",
        ('query = "request_id"', 'retention = "24h"'),
    ),
    "drops-changed": (
        "A write whose repeat is dropped with success",
        ('body_field = "/dedup_id"', 'retention = "5m"'),
    ),
    "in-use": (
        "A write that refuses a repeat while it runs",
        (_IN_HEADER, 'retention = "24h"', _REJECTED, _IN_USE),
    ),
    "expires": (
        "A write whose key is soon forgotten",
        (_IN_HEADER, 'retention = "2m"', _REJECTED),
    ),
    "quoted": (
        "A write whose key stands in quotes",
        (_IN_HEADER, "quoted = true", 'retention = "24h"', _REJECTED, "replays_errors = true", _IN_USE),
    ),
}
"""Route -> title, and the lines of its [idempotency]."""

_JOB = """id = "practice.jobs.create{suffix}"
title = "Start a job"
{source}
[match]
kind = "http"
method = ["POST"]
url = "http://127.0.0.1:{port}/v1/jobs"
{where}
[effect]
kind = "write"

[correlation]
operation = "/metadata/op"

[job]
{named}
state = "/state"
states = {{ "succeeded" = "committed", "failed" = "rejected" }}

[reconcile]
url = "http://127.0.0.1:{port}/v1/jobs?ref={{operation_id}}"
each = "/data"
where = {{ pointer = "/metadata/op", equals = "{{operation_id}}" }}
"""

_BATCH = """id = "practice.batches.{name}"
title = "Create several payments"
{source}
[match]
kind = "http"
method = ["POST"]
url = "http://127.0.0.1:{port}/v1/batches{path}"
{where}
[effect]
kind = "write"

[batch]
{met}
items = "/items"
results = "/results"
outcome = {{ pointer = "/status", committed = ["created"], rejected = ["invalid", "busy", "rolled_back"] }}
{atomic}"""

_FILES = {
    "practice.payments.create.toml": _PAYMENTS_CREATE,
    "practice.transfers.create.toml": _TRANSFERS_CREATE,
    "practice.account.read.toml": _ACCOUNT_READ,
    "practice.closed.read.toml": _CLOSED_READ,
}


def contracts(port: int, closed_port: int) -> dict[str, str]:
    """Contract texts by file name: a payment that a key binds, a transfer that nothing binds, and two reads."""
    return {name: text.format(source=_SOURCE, port=port, closed_port=closed_port) for name, text in _FILES.items()}


def behaviours(port: int) -> dict[str, str]:
    """Contract texts by file name for the service's other routes: keys of every behaviour, jobs, batches."""
    texts = {}
    for route, (title, terms) in _KEYS.items():
        name = route.replace("-", "_")
        texts[f"practice.keys.{name}.toml"] = _KEYED.format(
            name=name, title=title, source=_SOURCE, port=port, route=route, terms="\n".join(terms)
        )
    for suffix, where, named in (
        ("", "", 'pointer = "/id"\nstatus_url = "/status_url"'),
        (".header", 'where = [{ pointer = "/named_in", equals = "header" }]\n', 'status_url = "header:Location"'),
    ):
        texts[f"practice.jobs.create{suffix}.toml"] = _JOB.format(
            suffix=suffix, source=_SOURCE, port=port, where=where, named=named
        )
    for name, path, where, met, atomic in (
        ("create", "", "", 'by = "key"\nkey = "/id"', ""),
        (
            "create.atomic",
            "",
            'where = [{ pointer = "/atomic", equals = true }]\n',
            'by = "key"\nkey = "/id"',
            "atomic = true\n",
        ),
        ("positional", "/positional", "", 'by = "position"', ""),
    ):
        texts[f"practice.batches.{name}.toml"] = _BATCH.format(
            name=name, source=_SOURCE, port=port, path=path, where=where, met=met, atomic=atomic
        )
    return texts
