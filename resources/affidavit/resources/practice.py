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

[reconcile]
url = "http://127.0.0.1:{port}/v1/payments?ref={{operation_id}}"
each = "/data"
where = {{ pointer = "/metadata/op", equals = "{{operation_id}}" }}
state = "/status"
committed = ["succeeded"]
"""

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

_FILES = {
    "practice.payments.create.toml": _PAYMENTS_CREATE,
    "practice.transfers.create.toml": _TRANSFERS_CREATE,
    "practice.account.read.toml": _ACCOUNT_READ,
    "practice.closed.read.toml": _CLOSED_READ,
}


def contracts(port: int, closed_port: int) -> dict[str, str]:
    """Contract texts by file name: a payment that a key binds, a transfer that nothing binds, and two reads."""
    return {name: text.format(source=_SOURCE, port=port, closed_port=closed_port) for name, text in _FILES.items()}
