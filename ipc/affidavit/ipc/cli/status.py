"""`affidavit status`: the health of the running broker."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping

from affidavit.ipc.cli import link, output, words
from affidavit.ipc.cli.arguments import Parser, command, example
from affidavit.ipc.cli.escape import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def configure(parser: Parser, name: str) -> None:
    parser.description = "Health of the running broker: version, vault, journal, counts, open actions."
    parser.epilog = example("affidavit status --json")
    command(parser, status)


def status(args: argparse.Namespace) -> int:
    with link.agent() as broker:
        found = broker.call("status", {})
    return output.answer(found, lines(found), as_json=args.json)


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Every member on a line; the counts one phase a line. Members of later versions are shown too."""
    for name, value in found.items():
        label = f"{escape(name).replace('_', ' ')}:"
        if name == "counts":
            for phase, outcomes in value.items():
                counted = ", ".join(f"{escape(outcome)} {count}" for outcome, count in outcomes.items())
                yield f"{'actions in ' + escape(phase) + ':':<34}{counted}"
        elif name == "alerts" and value:
            for alert in value:
                yield f"{label:<34}{escape(str(alert.get('says')))}"
        elif name == "metrics":
            yield from metric_lines(value or ())
        elif name == "metrics_since":
            yield f"{'actions by target, since:':<34}{words.clock(value)}"
        elif isinstance(value, Mapping):
            yield f"{label:<34}{', '.join(f'{escape(key)} {shown(inner)}' for key, inner in value.items())}"
        else:
            yield f"{label:<34}{shown(value)}"


def metric_lines(metrics: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What was reached at each target under each contract, phase and outcome apart (R69)."""
    for each in metrics:
        counts = {**each["outcomes"], **{f"in {phase}": count for phase, count in each["phases"].items()}}
        counted = ", ".join(f"{escape(word)} {count}" for word, count in counts.items())
        yield escape(f"{each['target']} ({each['contract']}):") + f" {counted}"


def shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "; ".join(map(shown, value)) or "none"
    return escape(str(value))
