"""The params of `ssh.exec`, checked: from a raw mapping to a frozen `SshAsk` (R8, R9).

Everything that can be judged from the params alone is judged here: known params, types, ids, ranges, the command, the
input, the environment, sizes. Whether the host is set up is known to the vault, so it is checked later (interface,
Order of checks).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from affidavit.broker import shape
from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.terms import Code

_PARAMS = frozenset(
    {
        "host",
        "user",
        "port",
        "command",
        "stdin",
        "stdin_base64",
        "stream",
        "env",
        "credential",
        "wait_s",
        "deadline_s",
        "reason",
        *shape.TEXT_FORMS,
    }
)
_HOST = re.compile(r"(?!-)[A-Za-z0-9._:-]{1,253}")
"""The name of a host entry, which the operator chose, or an address."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
LIVE = "output"
"""The value of `stream` by which the outputs alone are streamed."""
_USER_MAX = 128
_VALUE_MAX = 4096
_VARIABLES_MAX = 64


@dataclass(frozen=True, slots=True)
class SshAsk:
    """What an agent asks for, checked as far as the params go."""

    host: str
    """The name of a host entry, or the address of the one entry that has it."""
    user: str | None
    port: int | None
    """Where given, the entry must have them."""
    command: str
    stdin: bytes = field(repr=False)
    has_stdin: bool
    stream: bool
    """Input comes over a second connection while the command runs. It is not known before, so nothing is repeated."""
    live: bool
    """Output goes over a second connection while the command runs; with `stream` over the same one."""
    env: tuple[tuple[str, str], ...]
    """Sorted by name."""
    credential: str | None = field(repr=False)
    operation_id: str | None
    correlation_id: str | None
    idempotency_key: str | None
    deadline_s: float | None
    wait_s: float
    reason: str | None
    read_for: str | None
    acknowledge_unresolved: str | None


def parse_ssh_exec(params: Mapping[str, Any], limits: Limits) -> SshAsk:
    """Check the raw params of `ssh.exec`. The first check that fails raises Refused."""
    given = shape.given(params, _PARAMS, ("host", "command"))
    host = shape.text(given, "host") or ""
    if not _HOST.fullmatch(host):
        raise shape.invalid("host", "A host is an entry or its address; user and port have fields of their own.")
    user, port = shape.text(given, "user"), given.get("port")
    if user is not None and not 1 <= len(user) <= _USER_MAX:
        raise shape.invalid("user", f"A user's name has 1 to {_USER_MAX} characters.")
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535):
        raise shape.invalid("port", "A port is a number from 1 to 65535.")
    command = _command(given, limits)
    streamed = given.get("stream", False)
    if not isinstance(streamed, bool) and streamed != LIVE:
        raise shape.invalid("stream", f'The field `stream` must be true, false, or "{LIVE}" for the outputs alone.')
    stream = streamed is True
    stdin, has_stdin = _stdin(given, stream=stream, limits=limits)
    texts = {name: shape.formed(given, name) for name in shape.TEXT_FORMS}
    wait_s = shape.seconds(given, "wait_s", 0, limits.wait_max_s)
    reason = shape.text(given, "reason")
    if reason is not None and len(reason) > limits.reason_chars:
        raise _over("reason", f"The reason is {len(reason)} characters; the limit is {limits.reason_chars}.")
    return SshAsk(
        host=host,
        user=user,
        port=port,
        command=command,
        stdin=stdin,
        has_stdin=has_stdin,
        stream=stream,
        live=bool(streamed),
        env=_env(given),
        credential=shape.credential(given),
        deadline_s=shape.seconds(given, "deadline_s", limits.deadline_min_s, limits.deadline_max_s),
        wait_s=(math.inf if streamed else limits.wait_s) if wait_s is None else wait_s,
        reason=reason,
        **texts,
    )


def _command(given: Mapping[str, Any], limits: Limits) -> str:
    command = shape.text(given, "command") or ""
    if not command.strip():
        raise shape.invalid("command", "The command is empty.")
    if "\0" in command:
        raise shape.invalid("command", "The command holds a NUL, which ends it for some hosts and not for others.")
    size = len(command.encode())
    if size > limits.ssh_command:
        raise _over("command", f"The command is {size} bytes; the limit is {limits.ssh_command}. Use stdin for more.")
    return command


def _stdin(given: Mapping[str, Any], *, stream: bool, limits: Limits) -> tuple[bytes, bool]:
    way = shape.only_one(given, ("stdin", "stdin_base64"))
    if way is None:
        return b"", False
    if stream:
        raise shape.invalid(way, "With `stream` input comes over the second connection; leave this out.")
    data = (shape.text(given, way) or "").encode() if way == "stdin" else shape.from_base64(given, way)
    if len(data) > limits.body:
        raise _over(way, f"The input is {len(data)} bytes; the limit is {limits.body}. Use `stream` for more.")
    return data, True


def _env(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    env = given.get("env", {})
    if not isinstance(env, Mapping) or len(env) > _VARIABLES_MAX:
        raise shape.invalid("env", f"The environment must be an object of at most {_VARIABLES_MAX} variables.")
    found = []
    for name, value in env.items():
        field_ = f"env.{shape.path(name)}"
        if not _VARIABLE.fullmatch(name):
            raise shape.invalid(field_, "A variable's name has letters, digits and underscores, and no digit first.")
        if not isinstance(value, str) or "\0" in value or shape.lone_surrogate(value):
            raise shape.invalid(field_, "A variable's value must be a text without NUL.")
        if len(value.encode()) > _VALUE_MAX:
            raise _over(field_, f"A variable's value has at most {_VALUE_MAX} bytes.")
        found.append((name, value))
    return tuple(sorted(found))


def _over(path: str, message: str) -> Refused:
    return Refused(Code.PAYLOAD_LIMIT, path, message)
