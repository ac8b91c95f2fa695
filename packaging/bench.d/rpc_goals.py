"""What does not touch a target: P13, control calls, and P14, the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from arena import LIMIT_S, Arena
from effort import Effort, progress
from goals import Finding, Holds, medians, milliseconds
from side_by_side import side_by_side

from affidavit.ipc.client import Client
from affidavit.ipc.demo.stage import Stage

LARGE = 16 * 1024 * 1024
NOT_IMPORTED = ("httpx", "paramiko", "mcp", "keyring", "PySide6", "asyncio")

_BARE = """
import argparse, json, socket, sys
parser = argparse.ArgumentParser()
parser.add_argument("--socket")
parser.add_argument("--json", action="store_true")
arguments = parser.parse_args()
connection = socket.socket(socket.AF_UNIX)
connection.connect(arguments.socket)
connection.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "status"}).encode() + b"\\n")
answer = connection.makefile("rb").readline()
print(json.dumps(json.loads(answer)["result"]))
"""
"""The least that a command of this kind can be."""

_LOADED = """
import sys
from affidavit.ipc.cli.main import main
main(["status", "--json"])
print(*sorted(set(sys.argv[1:]) & set(sys.modules)), file=sys.stderr)
"""


def p13(arena: Arena, stage: Stage, effort: Effort) -> list[Finding]:
    progress("P13, control calls")
    client = arena.agent(stage)
    echo = arena.echo()
    taken = medians(
        side_by_side(
            {
                "session.hello": lambda: _call(client, "session.hello"),
                "status": lambda: _call(client, "status"),
                "E": echo.once,
            },
            rounds=effort.calls,
            warming=20,
        )
    )
    detail = milliseconds(taken, effort.calls)
    progress("P13, control calls during large results")
    worst = [_during_large(arena, stage, client) for _ in range(effort.large_results)]
    worst_ms = max(worst) * 1000
    counted = f"the slowest of all during {effort.large_results} results: stored, then fetched in chunks"
    return [
        Finding("P13", "session.hello / E", taken["session.hello"] / taken["E"], Holds.AT_MOST, 1.5, detail),
        Finding("P13", "status / E", taken["status"] / taken["E"], Holds.AT_MOST, 1.5, detail),
        Finding("P13", "another's call during 16 MiB, ms", worst_ms, Holds.AT_MOST, 50, counted),
    ]


def p14(arena: Arena, stage: Stage, effort: Effort) -> list[Finding]:
    progress("P14, the command line")
    environment = stage.environment()
    affidavit = [str(Path(sysconfig.get_path("scripts")) / "affidavit"), "status", "--json"]
    bare = [sys.executable, "-I", "-c", _BARE, "--json", "--socket", str(stage.home.agent_socket)]

    def run(command: list[str]) -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        json.loads(done.stdout)
        return done.stderr

    taken = medians(
        side_by_side(
            {"affidavit status": lambda: _nothing(run(affidavit)), "bare": lambda: _nothing(run(bare))},
            rounds=effort.starts,
            warming=3,
        )
    )
    loaded = run([sys.executable, "-P", "-c", _LOADED, *NOT_IMPORTED]).split()
    ratio = taken["affidavit status"] / taken["bare"]
    return [
        Finding(
            "P14", "affidavit status / bare python -I", ratio, Holds.AT_MOST, 1.5, milliseconds(taken, effort.starts)
        ),
        Finding(
            "P14", "modules that it must not load", len(loaded), Holds.EXACTLY, 0, ", ".join(loaded) or "none of them"
        ),
    ]


def _during_large(arena: Arena, stage: Stage, other: Client) -> float:
    """The longest that `other` waited for a control call while a large result was stored, and then fetched."""
    taker = str(Path(__file__).parent / "taker.py")
    url = f"{arena.http}/large/{LARGE}"
    taking = subprocess.Popen([sys.executable, "-P", taker, str(stage.home.agent_socket), url])
    worst = 0.0
    while taking.poll() is None:
        started = time.perf_counter()
        other.call("session.hello")
        worst = max(worst, time.perf_counter() - started)
    if taking.returncode != 0:
        raise RuntimeError(f"the large result was not taken (exit {taking.returncode})")
    return worst


def _call(client: Client, method: str) -> None:
    client.call(method)


def _nothing(_: object) -> None:
    return None
