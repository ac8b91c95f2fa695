"""Where `--json` is looked for, and where a refusal goes, whenever a command ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from affidavit.ipc.cli.main import Line

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("--json", "status"), 3, "not_reachable"),
        (("status", "--json"), 3, "not_reachable"),
        (("--json", "http", "GET"), 2, "usage"),
        (("http", "GET", "--json"), 2, "usage"),
        (("--json", "stauts"), 2, "usage"),
        (("stauts", "--json"), 2, "usage"),
    ],
)
def test_a_refusal_is_one_object_on_stdout_wherever_json_stands(
    cli: Cli, words: tuple[str, ...], status: int, code: str
) -> None:
    ran = cli(*words)
    assert (ran.status, ran.json["error"]["code"], ran.err) == (status, code, "")


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("ssh", "--json", "-n", "web", "true"), 3, "not_reachable"),
        (("--json", "ssh", "-n", "web", "true"), 3, "not_reachable"),
        (("ssh", "-p", "none", "--json", "web", "true"), 2, "usage"),
        (("ssh", "--reason", "because", "--json"), 2, "usage"),
    ],
)
def test_a_refusal_of_a_command_on_a_host_leaves_its_stdout_alone(
    cli: Cli, words: tuple[str, ...], status: int, code: str
) -> None:
    ran = cli(*words)
    assert (ran.status, ran.out, json.loads(ran.err)["error"]["code"]) == (status, b"", code)


@pytest.mark.parametrize(
    "words",
    [
        ("ssh", "-n", "web", "--", "kubectl", "get", "-o", "--json"),
        ("ssh", "-p", "none", "web", "list", "--json"),
        ("ssh", "-n", "--", "web", "list", "--json"),
        ("ssh", "-oSendEnv=A", "-p", "none", "-T", "web", "--json"),
    ],
)
def test_the_json_of_a_command_on_a_host_is_its_own(cli: Cli, words: tuple[str, ...]) -> None:
    ran = cli(*words)
    assert ran.out == b""
    assert ran.err.startswith("affidavit: ")


def test_the_words_of_a_line_are_left_as_they_are(cli: Cli) -> None:
    words = ["--json", "--version"]
    assert Line(words).run() == 0
    assert words == ["--json", "--version"]
