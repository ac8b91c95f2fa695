"""The brokered HTTP call: P4, P5, P6, each beside the same request sent without a broker."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
from arena import LIMIT_S, Arena
from effort import Effort, progress
from goals import Finding, Holds, medians, milliseconds
from side_by_side import side_by_side

from affidavit.ipc.client import Client, new_operation_id
from affidavit.ipc.demo.stage import Stage
from affidavit.journal.bench import Commits

CALLERS = 32
ANEW = "httpx, new connection"
MITMPROXY = "mitmproxy"
CURL = "curl process"
NO_MITMPROXY = "packaging/bench --with-mitmproxy sets it up"
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
        url = arena.http + _PATH
        echo = arena.echo()
        things = {
            "brokered": _brokered(arena.agent(stage), url),
            "D": lambda: _direct(direct, url),
            "C": commits.once,
            "E": echo.once,
        }
        others = _others(arena, arena.http, ending)
        taken = medians(side_by_side({**things, **others}, rounds=effort.calls, warming=effort.warming))
    whole = taken["D"] + 2 * taken["C"] + taken["E"]
    detail = milliseconds(taken, effort.calls)
    return [Finding("P4", "brokered / (D + 2C + E)", taken["brokered"] / whole, Holds.AT_MOST, 1.2, detail)]


def p5(arena: Arena, effort: Effort) -> list[Finding]:
    progress("P5, one caller over TLS")
    trusting = (sys.executable, "-P", str(Path(__file__).parent / "trusting_serve.py"), str(arena.authority))
    stage = arena.broker("tls", command=trusting)
    brokered = _brokered(arena.agent(stage), arena.https + _PATH)
    with ExitStack() as ending:
        others = _others(arena, arena.https, ending)
        taken = medians(
            side_by_side({"brokered": brokered, **others}, rounds=effort.calls, warming=effort.warming),
        )
    detail = milliseconds(taken, effort.calls)

    def against(peer: str, wanted: float, absent: str) -> Finding:
        what = f"TLS: brokered / {peer}"
        if peer not in taken:
            return Finding("P5", what, None, Holds.AT_MOST, wanted, absent)
        return Finding("P5", what, taken["brokered"] / taken[peer], Holds.AT_MOST, wanted, detail)

    return [
        against(ANEW, 0.5, ""),
        against(MITMPROXY, 0.7, NO_MITMPROXY),
        against(CURL, 0.2, "curl is not installed"),
    ]


def p6(arena: Arena, stage: Stage, effort: Effort) -> list[Finding]:
    progress(f"P6, {CALLERS} callers")
    url, calls = arena.http + _PATH, effort.many_calls
    with ExitStack() as ending:
        shared = ending.enter_context(_shared())
        things = {
            "one caller": lambda: _together(stage, url, callers=1, calls=calls // CALLERS) * CALLERS,
            "brokered": lambda: _together(stage, url, callers=CALLERS, calls=calls),
            "httpx in threads": lambda: _in_threads(shared, url, calls),
        }
        proxy = arena.mitmproxy(arena.http)
        if proxy is not None:
            through = ending.enter_context(_shared())
            things[MITMPROXY] = lambda: _in_threads(through, proxy + _PATH, calls)
        taken = medians(side_by_side(things, rounds=effort.many_rounds, warming=1))
    per_s = {name: calls / seconds for name, seconds in taken.items()}
    detail = f"{', '.join(f'{name} {rate:.0f}' for name, rate in per_s.items())} requests/s; n {effort.many_rounds}"

    def against(peer: str, wanted: float) -> Finding:
        ratio = per_s["brokered"] / per_s[peer] if peer in per_s else None
        return Finding(
            "P6", f"against {peer}", ratio, Holds.AT_LEAST, wanted, NO_MITMPROXY if ratio is None else detail
        )

    return [against("httpx in threads", 1.5), against("one caller", 3), against(MITMPROXY, 3)]


def _others(arena: Arena, origin: str, ending: ExitStack) -> dict[str, Callable[[], None]]:
    """The same call as others make it, as far as they are here: a new connection each time, mitmproxy, curl."""
    url = origin + _PATH
    tls = ssl.create_default_context(cafile=str(arena.authority))
    anew = ending.enter_context(httpx.Client(trust_env=False, verify=tls, limits=_ONCE))
    others = {ANEW: lambda: _direct(anew, url)}
    proxy = arena.mitmproxy(origin)
    if proxy is not None:
        through = ending.enter_context(httpx.Client(trust_env=False))
        others[MITMPROXY] = lambda: _direct(through, proxy + _PATH)
    if shutil.which("curl") is not None:
        others[CURL] = lambda: _curl(url, arena)
    return others


def _shared() -> httpx.Client:
    """One client for all threads, as httpx recommends it."""
    return httpx.Client(trust_env=False, limits=httpx.Limits(max_connections=CALLERS), timeout=LIMIT_S)


def _curl(url: str, arena: Arena) -> None:
    """A process for each call, as a script makes them; the header comes from a file, not from its arguments."""
    words = ["curl", "-sSf", "-o", "/dev/null", "--noproxy", "*", "--cacert", str(arena.authority)]
    subprocess.run([*words, "-H", f"@{arena.injected}", url], check=True, timeout=LIMIT_S)


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
