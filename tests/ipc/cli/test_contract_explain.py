"""`affidavit contract explain` for URLs that agents call: the built-in contracts, word for word (R70).

The transcript is played again as in `test_transcripts`; AFFIDAVIT_WRITE_TRANSCRIPTS=1 writes it anew.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from affidavit.broker.adopted import built_in
from affidavit.broker.contract import ContractSet, explain
from affidavit.broker.limits import Limits
from affidavit.broker.target import parse_http

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

TRANSCRIPT = Path(__file__).parent / "transcripts/explain.txt"


def explained(params: Mapping[str, Any]) -> dict[str, Any]:
    """As the broker answers `contract.explain` where nothing was adopted."""
    target = parse_http(params["url"], Limits())
    return {"result": explain(ContractSet(built_in()), params["method"], target)}


def test_redirects_are_told_where_they_are_followed(cli: Cli, broker: ScriptedBroker) -> None:
    told = explained({"method": "GET", "url": "https://api.example.com/"})["result"]
    broker.answers("contract.explain", {"result": {**told, "redirects": 2}}, {"result": told})
    words = ("contract", "explain", "GET", "https://api.example.com/")
    assert "Redirects: followed, 2 at most" in cli(*words).text.splitlines()
    assert "Redirects" not in cli(*words).text


def test_three_answers_for_urls_that_agents_call(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("contract.explain", explained)
    commands = [line[2:] for line in TRANSCRIPT.read_text().splitlines() if line.startswith("$ ")]
    assert len(commands) >= 10
    shown = []
    for command in commands:
        ran = cli(*shlex.split(command)[1:])
        shown.append(f"$ {command}\n{ran.text}{ran.err}[exit {ran.status}]\n")
    played = "\n".join(shown)
    if os.environ.get("AFFIDAVIT_WRITE_TRANSCRIPTS"):
        TRANSCRIPT.write_text(played)
    assert played == TRANSCRIPT.read_text()
