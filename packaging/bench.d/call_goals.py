"""The brokered HTTP call: P4, P5, P6, each beside the same request sent without a broker."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
from arena import Arena
from effort import Effort, progress
from goals import Finding, Holds, medians, milliseconds
from side_by_side import side_by_side

from affidavit.ipc.client import Client, new_operation_id
from affidavit.ipc.demo.stage import Stage
from affidavit.journal.bench import Commits

CALLERS = 32
_PATH = "/v1/account"
_ONCE = httpx.Limits(max_keepalive_connections=0)
"""A client with these limits makes a connection for each call."""


def p4(arena: Arena, stage: Stage, effort: Effort) -> list[Finding]:
    progress("P4, one caller over HTTP")
    with ExitStack() as ending:
        (arena.root / "p4").mkdir()
        commits = Commits(arena.root / "p4")
        ending.callback(commits.close)
        direct = ending.enter_context(httpx.Client(trust_env=False))
        anew = ending.enter_context(httpx.Client(trust_env=False, limits=_ONCE))
        url = arena.http + _PATH
        echo = arena.echo()
        taken = medians(
            side_by_side(
                {
                    "brokered": _brokered(arena.agent(stage), url),
                    "D": lambda: _direct(direct, url),
                    "C": commits.once,
                    "E": echo.once,
                    "new connection": lambda: _direct(anew, url),
                },
                rounds=effort.calls,
                warming=effort.warming,
            )
        )
    whole = taken["D"] + 2 * taken["C"] + taken["E"]
    detail = milliseconds(taken, effort.calls)
    return [Finding("P4", "brokered / (D + 2C + E)", taken["brokered"] / whole, Holds.AT_MOST, 1.2, detail)]


def p5(arena: Arena, effort: Effort) -> list[Finding]:
    progress("P5, one caller over TLS")
    trusting = (sys.executable, "-P", str(Path(__file__).parent / "trusting_serve.py"), str(arena.authority))
    stage = arena.broker("tls", command=trusting)
    context = ssl.create_default_context(cafile=str(arena.authority))
    url = arena.https + _PATH
    with httpx.Client(trust_env=False, verify=context, limits=_ONCE) as anew:
        taken = medians(
            side_by_side(
                {"brokered": _brokered(arena.agent(stage), url), "new connection": lambda: _direct(anew, url)},
                rounds=effort.calls,
                warming=effort.warming,
            )
        )
    ratio = taken["brokered"] / taken["new connection"]
    detail = milliseconds(taken, effort.calls)
    later = "its peer is not part of this benchmark yet"
    return [
        Finding("P5", "TLS: brokered / httpx, new connection", ratio, Holds.AT_MOST, 0.5, detail),
        Finding("P5", "TLS: brokered / mitmproxy", None, Holds.AT_MOST, 0.7, later),
        Finding("P5", "TLS: brokered / curl process", None, Holds.AT_MOST, 0.2, later),
    ]


def p6(arena: Arena, stage: Stage, effort: Effort) -> list[Finding]:
    progress(f"P6, {CALLERS} callers")
    url = arena.http + _PATH
    with httpx.Client(trust_env=False, limits=httpx.Limits(max_connections=CALLERS)) as shared:
        taken = side_by_side(
            {
                "one caller": lambda: _together(stage, url, callers=1, calls=effort.many_calls // CALLERS),
                "brokered": lambda: _together(stage, url, callers=CALLERS, calls=effort.many_calls),
                "httpx in threads": lambda: _in_threads(shared, url, effort.many_calls),
            },
            rounds=effort.many_rounds,
            warming=1,
        )
    per_call = medians(taken)
    each = per_call | {"one caller": per_call["one caller"] * CALLERS}
    per_s = {name: effort.many_calls / seconds for name, seconds in each.items()}
    detail = f"{', '.join(f'{name} {rate:.0f}' for name, rate in per_s.items())} requests/s; n {effort.many_rounds}"
    return [
        Finding(
            "P6", "against httpx in threads", per_s["brokered"] / per_s["httpx in threads"], Holds.AT_LEAST, 1.5, detail
        ),
        Finding("P6", "against one caller", per_s["brokered"] / per_s["one caller"], Holds.AT_LEAST, 3, detail),
        Finding("P6", "against mitmproxy", None, Holds.AT_LEAST, 3, "its peer is not part of this benchmark yet"),
    ]


def _brokered(client: Client, url: str) -> Callable[[], None]:
    def call() -> None:
        answer = client.call("http.request", {"method": "GET", "url": url, "operation_id": new_operation_id()})
        if answer["http"]["status"] != 200:
            raise AssertionError(answer)

    return call


def _direct(client: httpx.Client, url: str) -> None:
    if client.get(url).status_code != 200:
        raise AssertionError(url)


def _together(stage: Stage, url: str, *, callers: int, calls: int) -> float:
    """Seconds for `calls` in all by so many callers at once, each on a connection of its own that is open already."""
    return asyncio.run(_all(str(stage.home.agent_socket), url, callers, calls // callers))


async def _all(path: str, url: str, callers: int, each: int) -> float:
    opened = [await asyncio.open_unix_connection(path, limit=1024 * 1024) for _ in range(callers)]

    async def caller(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(each):
            params = {"method": "GET", "url": url, "operation_id": new_operation_id()}
            call = {"jsonrpc": "2.0", "id": number, "method": "http.request", "params": params}
            writer.write(json.dumps(call).encode() + b"\n")
            answer = json.loads(await reader.readline())
            if answer["result"]["http"]["status"] != 200:
                raise AssertionError(answer)

    started = time.perf_counter()
    await asyncio.gather(*(caller(*streams) for streams in opened))
    taken = time.perf_counter() - started
    for _, writer in opened:
        writer.close()
        await writer.wait_closed()
    return taken


def _in_threads(client: httpx.Client, url: str, calls: int) -> float:
    with ThreadPoolExecutor(CALLERS) as threads:
        started = time.perf_counter()
        list(threads.map(lambda _: _direct(client, url), range(calls)))
        return time.perf_counter() - started
