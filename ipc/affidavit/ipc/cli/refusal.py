"""A command that ends without having done its work: what happened, where, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping

from affidavit.ipc.cli import exits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Refusal(Exception):
    """Raised by any command and printed once, in `main`.

    `code` is a lower-case word for programs, `field` the option or param to correct, `remedy` the next step for a
    person, `extra` further members of the object that `--json` prints.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        remedy: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.remedy = remedy
        self.extra = extra or {}

    def json(self) -> dict[str, Any]:
        error = {"code": self.code, "message": self.message, "field": self.field, "remedy": self.remedy}
        return {**self.extra, "error": {name: value for name, value in error.items() if value is not None}}


def usage(message: str, *, field: str | None = None, remedy: str | None = None) -> Refusal:
    """The command line is wrong: exit 2."""
    return Refusal(exits.USAGE, "usage", message, field=field, remedy=remedy)
