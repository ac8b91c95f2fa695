"""The params of `ssh.exec`: what passes, and which field is named where it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.ssh_request import SshAsk, parse_ssh_exec

LIMITS = Limits()
GOOD = {"host": "web-01", "command": "uptime"}


def test_a_whole_request() -> None:
    ask = parse_ssh_exec(
        {
            **GOOD,
            "stdin_base64": "AAE=",
            "env": {"RELEASE_ID": "r 1", "A": ""},
            "operation_id": "op-1",
            "deadline_s": 5,
            "wait_s": 0,
            "reason": "deploy",
        },
        LIMITS,
    )
    assert (ask.stdin, ask.has_stdin, ask.stream) == (b"\x00\x01", True, False)
    assert ask.env == (("A", ""), ("RELEASE_ID", "r 1"))
    assert (ask.operation_id, ask.deadline_s, ask.wait_s) == ("op-1", 5.0, 0.0)


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"command": ""}, "INVALID_REQUEST", "command"),
        ({"command": " \n "}, "INVALID_REQUEST", "command"),
        ({"command": "a\0b"}, "INVALID_REQUEST", "command"),
        ({"command": "x" * 300_000}, "PAYLOAD_LIMIT", "command"),
        ({"command": "é" * 16_001}, "PAYLOAD_LIMIT", "command"),
        ({"command": 1}, "INVALID_REQUEST", "command"),
        ({"command": None}, "INVALID_REQUEST", "command"),
        ({"host": "user@web"}, "INVALID_REQUEST", "host"),
        ({"host": "-oProxyCommand=x y"}, "INVALID_REQUEST", "host"),
        ({"stdin": "a", "stdin_base64": "YQ=="}, "INVALID_REQUEST", "stdin_base64"),
        ({"stdin_base64": "?"}, "INVALID_REQUEST", "stdin_base64"),
        ({"stdin": "a", "stream": True}, "INVALID_REQUEST", "stdin"),
        ({"stream": 1}, "INVALID_REQUEST", "stream"),
        ({"env": []}, "INVALID_REQUEST", "env"),
        ({"env": {"1A": "x"}}, "INVALID_REQUEST", "env.1A"),
        ({"env": {"A": "x\0"}}, "INVALID_REQUEST", "env.A"),
        ({"env": {"A": "x" * 4097}}, "PAYLOAD_LIMIT", "env.A"),
        ({"env": {f"A{n}": "" for n in range(65)}}, "INVALID_REQUEST", "env"),
        ({"reason": "x" * 501}, "PAYLOAD_LIMIT", "reason"),
        ({"pty": True}, "INVALID_REQUEST", "pty"),
        ({"operation_id": "no spaces"}, "INVALID_REQUEST", "operation_id"),
    ],
)
def test_what_is_refused(change: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_ssh_exec({**GOOD, **change}, LIMITS)
    assert (refused.value.code, refused.value.field) == (code, field)


def test_a_command_of_exactly_the_limit_passes() -> None:
    assert len(parse_ssh_exec({**GOOD, "command": "x" * 32_000}, LIMITS).command) == 32_000


@given(
    st.dictionaries(
        st.sampled_from(["host", "command", "stdin", "env", "stream", "wait_s", "x"]),
        st.none() | st.booleans() | st.integers() | st.text() | st.dictionaries(st.text(), st.text()),
    )
)
def test_any_params_give_an_ask_or_a_refusal(params: dict[str, Any]) -> None:
    named = None
    try:
        ask = parse_ssh_exec(params, LIMITS)
    except Refused as refused:
        named = refused.field
    assert named or isinstance(ask, SshAsk)
