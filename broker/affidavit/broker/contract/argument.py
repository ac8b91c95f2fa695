"""The operation id as an argument of a command, for hosts that take no variables (R50, R63).

The option goes behind the command, so the command must be one simple command: behind a list, a pipe or a redirection
the id would reach another program than the contract means, and the status command would then speak of nothing. What a
shell might read in a second way is refused, not escaped.
"""

from __future__ import annotations

import re
import shlex

from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.terms import Code, OperationId

_SIMPLE = re.compile(r"""[A-Za-z0-9_@%+=:,./'" -]+""")


def with_argument(command: str, option: str, operation_id: OperationId, limits: Limits) -> str:
    """The command with `option` and the id behind it; `--id=` takes it into the same word. Raises Refused."""
    words = _words(command)
    name = option.rstrip("=")
    if words is None or "--" in words:
        raise _refused("The contract carries the operation id behind the command: give one simple command.")
    if any(word == name or word.startswith(f"{name}=") for word in words):
        raise _refused(f"The contract carries the operation id in {name}; leave it out.")
    planted = f"{command} {option}{operation_id}" if option.endswith("=") else f"{command} {option} {operation_id}"
    if len(planted.encode()) > limits.ssh_command:
        raise Refused(Code.PAYLOAD_LIMIT, "command", "The command is too long with the operation id behind it.")
    return planted


def _words(command: str) -> list[str] | None:
    if _SIMPLE.fullmatch(command) is None:
        return None
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed
        return None


def _refused(message: str) -> Refused:
    return Refused(Code.INVALID_REQUEST, "command", message)
