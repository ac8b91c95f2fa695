"""Where the operation id goes behind a command, and which commands leave no safe place for it."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.contract.argument import with_argument
from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.terms import OperationId

ID = OperationId("op-1:a.b_c")


def planted(command: str, option: str = "--op") -> str:
    return with_argument(command, option, ID, Limits())


@pytest.mark.parametrize(
    ("command", "option", "out"),
    [
        ("release now", "--op", f"release now --op {ID}"),
        ("release now", "--op=", f"release now --op={ID}"),
        ("release 'a b' \"c d\"", "-o", f"release 'a b' \"c d\" -o {ID}"),
        ("release --operation x", "--op", f"release --operation x --op {ID}"),
        ("release '--op'x", "--op", f"release '--op'x --op {ID}"),
    ],
)
def test_it_is_the_last_argument(command: str, option: str, out: str) -> None:
    assert planted(command, option) == out


@pytest.mark.parametrize(
    "command",
    [
        "release; true",
        "release && true",
        "release | tee log",
        "release > log",
        "release # now",
        "release\n",
        "release\\",
        "release 'now",
        'release "now',
        "release $HOME",
        "release `id`",
        "release *",
        "(release)",
        "release -- now",
        "release é",
        "",
    ],
)
def test_what_is_not_one_simple_command_is_refused(command: str) -> None:
    with pytest.raises(Refused) as refused:
        planted(command)
    assert (refused.value.code, refused.value.field) == ("INVALID_REQUEST", "command")


@pytest.mark.parametrize("command", ["release --op x", "release --op=x", "release '--op' x", "release --op"])
@pytest.mark.parametrize("option", ["--op", "--op="])
def test_an_option_that_is_there_already_is_refused(command: str, option: str) -> None:
    with pytest.raises(Refused) as refused:
        planted(command, option)
    assert "leave it out" in refused.value.message


def test_it_fits_into_the_longest_command() -> None:
    longest = Limits().ssh_command - len(f" --op {ID}")
    assert len(planted("x" * longest)) == Limits().ssh_command
    with pytest.raises(Refused) as refused:
        planted("x" * (longest + 1))
    assert refused.value.code == "PAYLOAD_LIMIT"


@given(st.text(alphabet="ab '\"-=;|&$\\\n#<>()*`", max_size=12))
def test_a_shell_sees_the_same_words_and_two_more(command: str) -> None:
    try:
        out = planted(command)
    except Refused:
        return
    assert shlex.split(out) == [*shlex.split(command), "--op", str(ID)]
