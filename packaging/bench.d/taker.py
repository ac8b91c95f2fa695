"""An agent of its own: takes one large result, stored by the broker and then fetched in chunks.

    python taker.py SOCKET URL
    python taker.py SOCKET URL store

With `store` nothing is fetched: it prints the seconds from its call until the envelope, the result being durable.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from affidavit.ipc.client import Client, new_operation_id

LONG_S = 600


def take(socket: str, url: str) -> None:
    with Client(socket, timeout_s=LONG_S) as client:
        answer = _asked(client, url)
        for chunk in range(answer["http"]["body"]["chunks"]):
            client.call("result.fetch", {"invocation_id": answer["invocation_id"], "chunk": chunk})


def store(socket: str, url: str) -> float:
    with Client(socket, timeout_s=LONG_S) as client:
        started = time.perf_counter()
        answer = _asked(client, url)
        taken = time.perf_counter() - started
    if not answer["http"]["body"]["complete"]:
        raise RuntimeError("the result was cut")
    return taken


def _asked(client: Client, url: str) -> Any:
    limits = {"deadline_s": LONG_S, "wait_s": LONG_S}
    return client.call("http.request", {"method": "GET", "url": url, "operation_id": new_operation_id(), **limits})


if __name__ == "__main__":
    _, path, url, *how = sys.argv
    if how:
        print(store(path, url))
    else:
        take(path, url)
