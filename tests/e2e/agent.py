"""An agent in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from tests.e2e.rig import LIMIT_S, Home


class Agent:
    """One process that runs `code`."""

    def __init__(self, home: Home, code: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, *words],
            env=home.environment,
            cwd=home.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def said(self) -> list[str]:
        """What it printed by its end: outcome, code, invocation."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode == 0, err
        return out.split()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=LIMIT_S)
