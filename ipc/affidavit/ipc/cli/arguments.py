"""The argument parser of every command: argparse, with errors that name the option and the next step."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence

from affidavit.ipc.cli import exits
from affidavit.ipc.cli.refusal import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

Run = Callable[[argparse.Namespace], int]
"""What a command does with its arguments; returns the exit status or raises Refusal."""

_FIELD = re.compile(r"^argument ([^:]+): (.*)$", re.DOTALL)


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help keeps its own line breaks and has the same width everywhere."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=100)


class Parser(argparse.ArgumentParser):
    """A parser that raises Refusal instead of ending the process."""

    passes_output = False
    """Whether what follows its first operand, and stdout, are another program's: nothing of ours is looked for or put
    there."""

    def __init__(self, prog: str | None = None, *, description: str = "", epilog: str = "", **_: object) -> None:
        super().__init__(
            prog=prog, description=description, epilog=epilog, formatter_class=Formatter, allow_abbrev=False
        )

    def options_before_operands(self, words: Sequence[str]) -> list[str]:
        """The options among the first of `words`, up to the first operand. They need not be right."""
        found = []
        left = iter(words)
        for word in left:
            if not word.startswith("-") or word == "--":
                break
            found.append(word)
            option = self._option_string_actions.get(word)
            if option is not None and option.nargs != 0:
                next(left, None)
        return found

    def error(self, message: str) -> NoReturn:
        found = _FIELD.match(message)
        field, text = (found[1], found[2]) if found else (None, message)
        raise usage(text[:1].upper() + text[1:] + ".", field=field, remedy=f"{self.prog} --help")


def command(parser: Parser, run: Run) -> Parser:
    """Make `parser` a command of its own: it does `run` and takes `--json`."""
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object")
    parser.set_defaults(run=run)
    return parser


def family(parser: Parser) -> Callable[..., Parser]:
    """Make `parser` a family of commands; returns how to add one: `add(name, run, help, epilog=...)`."""
    parts = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def add(name: str, run: Run, summary: str, *, epilog: str = exits.HELP) -> Parser:
        return command(parts.add_parser(name, help=summary, description=summary, epilog=epilog), run)

    return add


def example(line: str, statuses: str = exits.HELP) -> str:
    """An epilog: one example and the exit statuses."""
    return f"example:\n  {line}\n\n{statuses}"


def passphrase_option(parser: Parser, without: str = "the terminal asks") -> None:
    parser.add_argument(
        "--passphrase-fd",
        type=int,
        metavar="N",
        help=f"read the passphrase from the first line of descriptor N; without it {without}",
    )
