"""What the tour tells and what it checks, kept together: each check is printed as it is made and counted at the end."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from affidavit.ipc.cli.escape import escape

WIDTH = 100


@dataclass(frozen=True, slots=True)
class Check:
    """One statement and whether it held; `found` says what was there instead."""

    what: str
    held: bool
    found: str = ""


@dataclass(slots=True)
class Told:
    """One scene and its checks."""

    title: str
    checks: list[Check] = field(default_factory=list)


class Board:
    """Tells the tour on `out`. Owned by the tour's only thread."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.scenes: list[Told] = []

    @property
    def passed(self) -> int:
        return sum(check.held for scene in self.scenes for check in scene.checks)

    @property
    def failed(self) -> int:
        return sum(not check.held for scene in self.scenes for check in scene.checks)

    def scene(self, title: str, what: str) -> None:
        """Begin a scene: a numbered title and what it shows."""
        self.scenes.append(Told(title))
        self.line()
        self.line(f"{len(self.scenes)}. {title}")
        self.line("-" * (len(title) + len(str(len(self.scenes))) + 2))
        self.say(what)

    def say(self, text: str) -> None:
        """One paragraph."""
        self.line(textwrap.fill(" ".join(text.split()), WIDTH))

    def line(self, text: str = "") -> None:
        print(text, file=self._out, flush=True)

    def shown(self, label: str, text: str) -> None:
        """What was seen: escaped, after its label."""
        self.line(f"  {label:<14}{escape(text)}")

    def check(self, what: str, held: bool, found: object = "") -> bool:
        """Note whether `what` held; `found` is printed only where it did not."""
        made = Check(what, bool(held), "" if held else str(found))
        self.scenes[-1].checks.append(made)
        self.line(f"  {'held:' if made.held else 'NOT HELD:':<14}{escape(what)}")
        if made.found:
            self.shown("found:", made.found)
        return made.held

    def equal(self, what: str, found: object, expected: object) -> bool:
        """Note that `found` is `expected`."""
        return self.check(f"{what} is {expected}", found == expected, found)

    def facts(self, envelope: Mapping[str, Any], **expected: object) -> None:
        """Check the named facts of an envelope."""
        said = envelope.get("result") or envelope.get("error") or envelope.get("pending") or {}
        for name, value in expected.items():
            self.equal(name, said.get(name), value)

    def json(self) -> dict[str, Any]:
        """The tour as one object."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "scenes": [
                {
                    "title": scene.title,
                    "checks": [
                        {"what": check.what, "held": check.held, **({"found": check.found} if check.found else {})}
                        for check in scene.checks
                    ],
                }
                for scene in self.scenes
            ],
        }
