"""A broker that takes in one large answer over a real connection, in a process of its own so that its memory shows.

Run with a directory and a size in MiB; prints one JSON object: `grown` (bytes by which the memory's peak passed what
was in use before), `others` (calls that were answered while the body came), `chunks`, `whole` (every chunk verified
and of the right content).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.broker.conftest import SECRET, World, new_home

from affidavit.broker.broker import Broker
from affidavit.broker.vault import Vault
from affidavit.broker.wire.exchange import DirectWire

MIB = 1024 * 1024
BLOCK = hashlib.shake_256(b"content").digest(MIB)
CONTRACT = """
id = "test.loopback"
[match]
kind = "http"
method = ["GET"]
url = "http://127.0.0.1:{port}/**"
[effect]
kind = "read"
[approval]
mode = "never"
[deadlines]
request = "10m"
"""


def serve(listening: socket.socket, size: int) -> None:
    """Answer `/large` with `size` MiB, whatever else is asked with two bytes."""
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(connection, size), daemon=True).start()


def answer(connection: socket.socket, size: int) -> None:
    with connection:
        asked = connection.recv(65536)
        blocks = size if asked.startswith(b"GET /large ") else 0
        length = blocks * MIB or 2
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
        for _ in range(blocks):
            connection.sendall(BLOCK)
        if not blocks:
            connection.sendall(b"ok")


def memory(what: str) -> int:
    """`VmRSS` (now) or `VmHWM` (the peak since the program began), in bytes."""
    found = re.search(rf"^{what}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024


async def main(directory: Path, size: int) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listening, size), daemon=True).start()
    port = listening.getsockname()[1]
    world = World(new_home(directory / "home"))
    world.broker = await Broker.open(world.places, wire=DirectWire(), vault=Vault(world.places))
    await world.unlock()
    await world.adopt(CONTRACT.format(port=port))
    await world.credential(target=f"http://127.0.0.1:{port}/**")
    assert SECRET not in BLOCK
    session = world.session()

    def get(path: str) -> asyncio.Task[Mapping[str, Any]]:
        return world.call(session, method="GET", url=f"http://127.0.0.1:{port}{path}", wait_s=600)

    await get("/warm")
    before = memory("VmRSS")
    large, others = get("/large"), 0
    while not large.done():
        await get("/small")
        others += not large.done()
    grown = memory("VmHWM") - before
    got = await large
    body = got["http"]["body"]
    digest = hashlib.sha256()
    for chunk in range(body["chunks"]):
        data = await world.broker.agent.result_fetch(
            session,
            invocation_id=got["invocation_id"],
            chunk=chunk,
            part="body",
        )
        plain = base64.b64decode(data["base64"])
        assert data["sha256"] == hashlib.sha256(plain).hexdigest()
        digest.update(plain)
    expected = hashlib.sha256()
    for _ in range(size):
        expected.update(BLOCK)
    whole = digest.hexdigest() == expected.hexdigest() == body["sha256"] and body["bytes"] == size * MIB
    await world.stop()
    listening.close()
    print(
        json.dumps(
            {
                "grown": grown,
                "others": others,
                "chunks": body["chunks"],
                "whole": whole,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
