"""An agent of its own: takes one large result, stored by the broker and then fetched in chunks.

python taker.py SOCKET URL
"""

from __future__ import annotations

import sys

from affidavit.ipc.client import Client, new_operation_id


def take(socket: str, url: str) -> None:
    with Client(socket, timeout_s=120) as client:
        answer = client.call("http.request", {"method": "GET", "url": url, "operation_id": new_operation_id()})
        for chunk in range(answer["http"]["body"]["chunks"]):
            client.call("result.fetch", {"invocation_id": answer["invocation_id"], "chunk": chunk})


if __name__ == "__main__":
    take(*sys.argv[1:])
