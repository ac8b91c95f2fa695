"""A large result: P12, its storing beside a plain file, what it does to commits meanwhile, and the memory it takes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from arena import LIMIT_S, Arena
from effort import Effort, progress
from goals import Finding, Holds

from affidavit.ipc.client import ActionFailed, Client
from affidavit.ipc.demo.stage import Stage

CHUNK = 256 * 1024
UNSYNCED = 4 * CHUNK
"""As results are written: in chunks, with at most so many bytes that are not forced to disk."""
IDLE_COMMITS = 50
PAUSE_S = 0.02
"""Between two commits: they are to be measured, not to compete with what they are measured beside."""
_MIB = 1024 * 1024
_TAKER = Path(__file__).parent / "taker.py"


def p12(arena: Arena, stage: Stage, effort: Effort) -> list[Finding]:
    progress(f"P12, a result of {effort.result_bytes // _MIB} MiB")
    commit = _committing(arena.agent(stage), arena.http)
    plain: list[float] = []
    stored: list[float] = []
    meanwhile: list[float] = []
    idle: list[float] = []
    for _ in range(IDLE_COMMITS):
        commit()
    resident = _resident(stage.broker_pid)
    most = resident
    for _ in range(effort.result_rounds):
        plain.append(_written(arena.root / "plain", effort.result_bytes))
        seconds, during, peak = _stored(arena, stage, effort.result_bytes, commit)
        stored.append(seconds)
        meanwhile += during
        most = max(most, peak)
        idle += [commit() for _ in range(IDLE_COMMITS)]
    plain_s, stored_s = statistics.median(plain), statistics.median(stored)
    idle_s, during_s = statistics.median(idle), statistics.median(meanwhile)
    size = effort.result_bytes / _MIB
    speed = f"stored {size / stored_s:.0f}, plain {size / plain_s:.0f} MiB/s; {size:.0f} MiB, n {effort.result_rounds}"
    commits = f"meanwhile {during_s * 1000:.3g}, idle {idle_s * 1000:.3g} ms; n {len(meanwhile)} and {len(idle)}"
    return [
        Finding("P12", "plain file write / result stored", plain_s / stored_s, Holds.AT_LEAST, 0.5, speed),
        Finding("P12", "a commit meanwhile / idle", during_s / idle_s, Holds.AT_MOST, 2, commits),
        Finding("P12", "memory it takes, MiB", (most - resident) / _MIB, Holds.AT_MOST, 32, f"of {size:.0f} MiB"),
    ]


def _stored(arena: Arena, stage: Stage, size: int, commit: Callable[[], float]) -> tuple[float, list[float], int]:
    """Let an agent of its own ask for a large answer: seconds until it has its envelope, what commits took meanwhile,
    and the most memory that the broker held, in bytes."""
    words = [sys.executable, "-P", str(_TAKER), str(stage.home.agent_socket), f"{arena.http}/large/{size}", "store"]
    during: list[float] = []
    peak = 0
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as taking:
        assert taking.stdout is not None
        said: list[str] = []
        ended = threading.Thread(target=lambda: said.append(taking.communicate(timeout=10 * LIMIT_S)[0]))
        ended.start()
        while ended.is_alive():
            during.append(commit())
            peak = max(peak, _resident(stage.broker_pid))
    if taking.returncode != 0:
        raise RuntimeError(f"the large result was not stored (exit {taking.returncode})")
    return float(said[0]), during, peak


def _written(path: Path, size: int) -> float:
    """Seconds to write a plain file, forced to disk as often as a result is."""
    chunk = os.urandom(CHUNK)
    started = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for at in range(0, size, CHUNK):
            file.write(chunk)
            if at % UNSYNCED == UNSYNCED - CHUNK:
                os.fdatasync(file.fileno())
        os.fsync(file.fileno())
    taken = time.perf_counter() - started
    path.unlink()
    return taken


def _committing(client: Client, origin: str) -> Callable[[], float]:
    """One commit of the broker's own journal: a refusal, which waits to be recorded, and a list, which waits for that.

    Each refusal is of another request, or it would be slowed as a loop. Seconds, both calls included.
    """
    numbers = count()

    def commit() -> float:
        refused = {"method": "GET", "url": f"{origin}/{next(numbers)}", "credential": "nobody"}
        time.sleep(PAUSE_S)
        started = time.perf_counter()
        try:
            client.call("http.request", refused)
        except ActionFailed:
            client.call("action.list", {"limit": 1})
        return time.perf_counter() - started

    return commit


def _resident(pid: int) -> int:
    """Bytes of memory that a process holds now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
