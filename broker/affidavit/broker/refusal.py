"""A request that is refused before anything is sent: the code, the field to correct, and a sentence for a person.

The phase and the retry advice stand in the code's row of the verdict tables; they are not repeated here.
"""

from __future__ import annotations

from dataclasses import dataclass

from affidavit.broker.terms import Code


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused (R8, R9). No part of it holds a secret or echoes a credential's name."""

    code: Code
    field: str | None
    """The path of the param to correct, such as `headers.Cookie`; None where no single one is at fault."""
    message: str
    """A whole sentence that names the remedy."""
    needs: str | None = None
    """What is asked of a person, such as `operator_unlock`."""
    refers_to: str | None = None
    """Another invocation."""


class Refused(Exception):
    """Raised by a check; the engine turns it into a record and an envelope."""

    def __init__(
        self,
        code: Code,
        field: str | None,
        message: str,
        needs: str | None = None,
        refers_to: str | None = None,
    ) -> None:
        super().__init__(message)
        self.refusal = Refusal(code, field, message, needs, refers_to)

    @property
    def code(self) -> Code:
        return self.refusal.code

    @property
    def field(self) -> str | None:
        return self.refusal.field

    @property
    def message(self) -> str:
        return self.refusal.message

    @property
    def needs(self) -> str | None:
        return self.refusal.needs

    @property
    def refers_to(self) -> str | None:
        return self.refusal.refers_to
