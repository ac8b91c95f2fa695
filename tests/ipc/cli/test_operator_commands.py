"""Operator commands over the socket: what they send, whom they trust, and how they say no."""

from __future__ import annotations

import base64
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from affidavit.broker.card import NoticeKind
from affidavit.ipc.cli import card_text, operator

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

ACT = "act_01JEXAMPLE0000000000000000"
SETTING = {"key": "assume_reads", "value": "off", "default": "on", "set_by": ["operator"], "what": "whether"}


def refused(code: str, message: str, **data: Any) -> dict[str, Any]:
    return {"error": {"code": -32003, "message": message, "data": {"code": code, **data}}}


def card(**more: Any) -> dict[str, Any]:
    process = {"pid": 7, "name": "node", "exe": "/usr/bin/node", "cwd": "/home/u/proj"}
    answer = {"text": "the key", "present": True}
    return {
        "invocation_id": ACT,
        "operation_id": "op_1",
        "session": {
            "session_id": "s",
            "uid": 1000,
            "process": process,
            "peer": process,
            "chain": [],
            "claim": {"client": "agent\x1b[2J", "version": "1"},
        },
        "reason": "pay \u202eit",
        "effect": "write",
        "title": "Create a payment",
        "method": "POST",
        "url": "https://api.example.com/v1/payments",
        "headers": [["content-type", "application/json"]],
        "body": {"bytes": 9, "type": "application/json", "text": '{"a":\n1}\x07'},
        "credential": {"name": "example", "version": 2, "sent_as": "Authorization header"},
        "contract": {
            "id": "practice.payments.create",
            "checked": "2026-11-30",
            "answers": {
                "binds_retries": answer,
                "lookup": {"text": "No look-up.", "present": False},
                "on_connection_death": answer,
            },
        },
        "fingerprint": "sha256:" + "8b1f" * 16,
        "fingerprint_groups": ["8b1f"] * 8,
        "mode": "always",
        "scopes": ["once"],
        "preselected": "once",
        "notices": [{"kind": "same_route_unknown", "invocation_id": "act_9", "record": 41, "at": None}],
        "tick": None,
        "asked_at": "2026-11-30T14:32:07Z",
        "grant_until": None,
        "expires_at": "2026-11-30T14:42:07Z",
        **more,
    }


@pytest.mark.parametrize(("repeats", "said"), [(1, "up to 1 repeat of"), (2, "up to 2 repeats of"), (0, None)])
def test_a_card_names_the_repeats_that_it_covers(repeats: int, said: str | None) -> None:
    told = "\n".join(card_text.lines(card(repeats=repeats)))
    assert ("repeat of" in told or "repeats of" in told) is (said is not None)
    assert said is None or said in told


@pytest.mark.parametrize("next_host", [None, "inner"])
def test_a_card_of_a_new_host_shows_the_whole_key(next_host: str | None) -> None:
    key = {"host": "web", "authority": "web.example.com:22", "algorithm": "ssh-ed25519", "fingerprint": "SHA256:7Qm4"}
    notice = {"kind": "new_host_key", "invocation_id": None, "record": None, "at": None}
    told = "\n".join(card_text.lines(card(notices=[{**notice, "host_key": {**key, "next_host": next_host}}])))
    assert "the key of web at web.example.com:22 has never been seen: ssh-ed25519 SHA256:7Qm4." in told
    assert "Approving pins it." in told
    assert ("Nothing is sent yet: inner" in told) is (next_host is not None)


def test_a_card_that_releases_a_result_says_nothing_of_a_dispatch() -> None:
    notice = {"kind": "result_release", "invocation_id": "act_9", "record": 41, "at": None, "host_key": None}
    told = list(card_text.lines(card(notices=[notice], effect="read", title="Hand it over", credential=None)))
    assert told[:3] == [
        "Hand it over",
        "Ends 2026-11-30 14:42:07 UTC; then the result is not handed over.",
        "! Nothing is sent: another agent asks to read a recorded result. The result is that of record 41 (act_9). It "
        "belongs to another session.",
    ]
    assert "The result is that of: POST https://api.example.com/v1/payments" in told
    assert any(line.endswith(" ".join(["8b1f"] * 8)) for line in told)
    assert told[-1] == "Scope: lets this session read the result. Nothing is sent."
    assert not [line for line in told if line.startswith(("Credential", "Contract", "READ", "  body", "  no body"))]


def test_every_notice_has_a_sentence() -> None:
    assert set(NoticeKind) <= set(card_text.NOTICES)


def test_a_card_names_the_last_approved_url_where_it_is_another() -> None:
    url = card()["url"]
    for last, said in ((None, False), (url, False), (f"{url}/\u202e7", True)):
        told = "\n".join(card_text.lines(card(last_url=last)))
        assert (f"last approved on this route: {url}/<U+202E>7" in told) is said
        assert ("last approved" in told) is said


@pytest.fixture
def carded(broker: ScriptedBroker) -> ScriptedBroker:
    broker.answers("approval.show", {"result": card()})
    broker.answers("approval.approve", {"result": {"decision": "approved"}})
    return broker


def test_approve_prints_the_whole_card_and_then_approves(cli: Cli, carded: ScriptedBroker) -> None:
    ran = cli("approve", ACT, "--passphrase-fd", cli.fd(b"open sesame\n"))
    assert ran.status == 0
    assert [(socket, method) for socket, method, _ in carded.calls] == [
        ("operator", "approval.show"),
        ("operator", "approval.approve"),
    ]
    given = {"invocation_id": ACT, "passphrase": "open sesame"}
    assert [params for _, _, params in carded.calls] == [given, {**given, "scope": "once"}]
    for shown in (
        "WRITE  Create a payment",
        "node, pid 7, in /home/u/proj",
        'it calls itself "agent<U+001B>[2J 1"',
        'reason: "pay <U+202E>it"',
        "POST https://api.example.com/v1/payments",
        '  | {"a":\n  | 1}<U+0007>',
        "example, version 2, sent as Authorization header",
        "Outcome can be looked up: MISSING. No look-up.",
        "8b1f 8b1f 8b1f 8b1f 8b1f 8b1f 8b1f 8b1f",
        "Another request to this route is unknown (act_9, record 41)",
    ):
        assert shown in ran.text
    assert ran.text.splitlines()[-1] == "Approved once."
    assert "\x1b" not in ran.text


def test_a_scope_that_the_card_does_not_offer_decides_nothing(cli: Cli, carded: ScriptedBroker) -> None:
    ran = cli("approve", ACT, "--scope", "session", "--passphrase-fd", cli.fd(b"x\n"))
    assert ran.status == 2
    assert carded.asked("approval.approve") == []


def test_the_preselected_scope_of_a_read_is_taken(cli: Cli, carded: ScriptedBroker) -> None:
    carded.answers("approval.show", {"result": card(scopes=["once", "session"], preselected="session")})
    assert cli("approve", ACT, "--passphrase-fd", cli.fd(b"x\n")).text.endswith("Approved for this session.\n")
    assert carded.asked("approval.approve")[0]["scope"] == "session"


def test_with_json_the_card_goes_to_stderr(cli: Cli, carded: ScriptedBroker) -> None:
    ran = cli("approve", ACT, "--json", "--passphrase-fd", cli.fd(b"x\n"))
    assert ran.json == {"decision": "approved"}
    assert "Create a payment" in ran.err


@pytest.mark.parametrize(("code", "status"), [("wrong_passphrase", 4), ("locked", 4), ("too_late", 1), ("conflict", 1)])
def test_a_refusal_has_its_status_field_and_next_step(cli: Cli, broker: ScriptedBroker, code: str, status: int) -> None:
    broker.answers("approval.show", refused(code, "It is\x1b refused.", field="passphrase", remedy="Try again."))
    ran = cli("approve", ACT, "--passphrase-fd", cli.fd(b"x\n"))
    assert ran.status == status
    assert ran.err == "affidavit: It is<U+001B> refused.\n  field: passphrase\n  next: Try again.\n"
    ran = cli("approve", ACT, "--json", "--passphrase-fd", cli.fd(b"x\n"))
    assert ran.status == status
    assert ran.json["error"] == {
        "code": code, "message": "It is\x1b refused.", "field": "passphrase", "remedy": "Try again.",
    }  # fmt: skip


def test_deny_lock_and_approvals_need_no_passphrase(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("approval.deny", {"result": {"decision": "denied"}})
    broker.answers("vault.lock", {"result": {"vault": "locked"}})
    broker.answers("approval.list", {"result": {"cards": [card(body={"bytes": 9, "type": None})]}})
    assert cli("deny", ACT, "--reason", "no ticket").status == 0
    assert cli("lock").status == 0
    ran = cli("approvals")
    assert ran.status == 0
    assert f"{ACT}  2026-11-30 14:32:07  WRITE   node  POST https://api.example.com/v1/payments" in ran.text
    assert broker.calls == [
        ("operator", "approval.deny", {"invocation_id": ACT, "reason": "no ticket"}),
        ("operator", "vault.lock", {}),
        ("operator", "approval.list", {}),
    ]


def test_unlock(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("vault.unlock", {"result": {"vault": "ready"}})
    ran = cli("unlock", "--passphrase-fd", cli.fd(b"pass phrase\r\nnot this\n"))
    assert (ran.status, ran.text) == (0, "The vault is open.\n")
    assert broker.asked("vault.unlock") == [{"passphrase": "pass phrase"}]


def test_passphrase_and_secret_may_come_from_one_descriptor(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("credential.add", {"result": {"name": "example", "version": 1, "warnings": ["Short\x1b."]}})
    fd = cli.fd(b"pass\nse\ncret\n")
    ran = cli(
        "credential", "add", "example", "--kind", "header", "--target", "https://a.example/*", "--header", "X-Key",
        "--format", "token {secret}", "--approval", "always", "--private", "--passphrase-fd", fd, "--secret-fd", fd,
    )  # fmt: skip
    assert ran.status == 0
    assert ran.err == "Note: Short<U+001B>.\n"
    assert broker.asked("credential.add") == [
        {
            "name": "example",
            "kind": "header",
            "targets": ["https://a.example/*"],
            "private": True,
            "approval": "always",
            "header": "X-Key",
            "format": "token {secret}",
            "secret_base64": base64.b64encode(b"se\ncret").decode(),
            "passphrase": "pass",
        }
    ]


def test_rotate_remove_list_and_settings(cli: Cli, broker: ScriptedBroker) -> None:
    rows = [{"name": "e", "version": 2, "kind": "bearer", "approval": None, "targets": ["https://a.example/*"]}]
    broker.answers("credential.rotate", {"result": {"name": "e", "version": 2}})
    broker.answers("credential.remove", {"result": {"name": "e"}})
    broker.answers("credential.list", {"result": {"credentials": rows}})
    broker.answers("settings.show", {"result": {"settings": [SETTING]}})
    changed = {"key": "assume_reads", "value": "off", "in_force": "off", "set_by": ["operator"]}
    broker.answers("settings.set", {"result": changed})
    fd = cli.fd(b"pw\nnew")
    ran = cli("credential", "rotate", "e", "--passphrase-fd", fd, "--secret-fd", fd)
    assert ran.text == "e has a new secret, version 2.\n"
    assert cli("credential", "remove", "e", "--passphrase-fd", cli.fd(b"pw")).text == "e is removed.\n"
    listed = cli("credential", "list", "--passphrase-fd", cli.fd(b"pw")).text
    assert listed.splitlines()[1] == "e     2        bearer  -         -        https://a.example/*"
    assert cli("settings", "show").text.splitlines()[1] == "assume_reads  off    operator  whether"
    said = cli("settings", "set", "assume_reads", "off", "--passphrase-fd", cli.fd(b"pw"))
    assert (said.status, said.text) == (0, "assume_reads is off.\n")
    assert broker.asked("settings.set") == [{"key": "assume_reads", "value": "off", "passphrase": "pw"}]


def test_a_setting_that_the_file_overrules_is_not_said_to_be_set(cli: Cli, broker: ScriptedBroker) -> None:
    changed = {"key": "approvals", "value": "on", "before": None, "in_force": "off", "set_by": ["operator", "file"]}
    broker.answers("settings.set", {"result": changed})
    said = cli("settings", "set", "approvals", "on", "--passphrase-fd", cli.fd(b"pw"))
    assert (said.status, said.text) == (0, "approvals is off, not on: config/settings.toml sets it.\n")


def test_attest_sends_what_was_given(cli: Cli, broker: ScriptedBroker) -> None:
    facts = {
        "code": "SETTLED_BY_OPERATOR",
        "phase": "remote_execution",
        "outcome": "committed",
        "retry": "never",
        "message": "You attested it as committed (record 52).",
    }
    broker.answers("attestation.add", {"result": {"invocation_id": ACT, "result": facts, "settled": {}}})
    ran = cli("attest", ACT, "--outcome", "committed", "--note", "seen", "--reference", "pay_1", "--supersedes", "4",
              "--passphrase-fd", cli.fd(b"pw"))  # fmt: skip
    assert ran.status == 0
    assert broker.asked("attestation.add") == [
        {"invocation_id": ACT, "outcome": "committed", "note": "seen", "reference": "pay_1", "supersedes": 4,
         "passphrase": "pw"}
    ]  # fmt: skip


@pytest.mark.parametrize("given", [b"", b"\n", b"\xff\n", b"x" * 5000])
def test_a_passphrase_that_cannot_be_one_is_wrong_usage(cli: Cli, broker: ScriptedBroker, given: bytes) -> None:
    ran = cli("unlock", "--passphrase-fd", cli.fd(given))
    assert ran.status == 2
    assert "field: --passphrase-fd" in ran.err
    assert broker.calls == []


def test_a_descriptor_that_is_not_open(cli: Cli, broker: ScriptedBroker) -> None:
    ran = cli("unlock", "--passphrase-fd", "987")
    assert ran.status == 2
    assert "Descriptor 987 cannot be read" in ran.err


def test_a_lax_run_directory_is_refused_with_the_fix(cli: Cli, broker: ScriptedBroker, home: Path) -> None:
    (home / "run").chmod(0o755)
    for words in (("lock",), ("status",)):
        ran = cli(*words)
        assert ran.status == 3
        assert f"chmod 700 {home / 'run'}" in ran.err
    assert broker.calls == []


def test_the_agents_socket_variable_is_not_for_operators(
    cli: Cli, broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AFFIDAVIT_SOCKET", str(tmp_path / "elsewhere"))
    broker.answers("vault.lock", {"result": {"vault": "locked"}})
    assert cli("lock").status == 0
    assert cli("status").status == 3


def test_the_prompt_names_home_variable_pid_and_program(home: Path) -> None:
    from affidavit.broker.home import Places

    program = os.path.realpath(sys.executable)
    shown = operator.prompt(Places.from_environment({"AFFIDAVIT_HOME": str(home)}), os.getpid())
    assert shown == f"Passphrase for {home} (from AFFIDAVIT_HOME), broker pid {os.getpid()} {program}:"
    shown = operator.prompt(Places.from_environment({"HOME": "/h"}), None)
    assert shown == "Passphrase for /h/.local/share/affidavit, no broker running:"


ON_TERMINAL = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)  # the first terminal that a new session opens becomes its own
for each in (0, 1, 2):
    os.dup2(terminal, each)
os.execv(sys.executable, [sys.executable, "-P", "-m", "affidavit.ipc.cli", *sys.argv[2:]])
"""


def on_terminal(words: list[str], typed: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    """Run a command on a terminal of its own and type each answer once its prompt was seen.

    Returns the exit status and all that the terminal showed.
    """
    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-c", ON_TERMINAL, os.ttyname(theirs), *words]
    shown = b""
    with subprocess.Popen(command, start_new_session=True) as process:
        timer = threading.Timer(60, process.kill)
        timer.start()
        try:
            for prompt, answer in typed:
                while prompt not in shown:
                    shown += os.read(ours, 4096)
                os.write(ours, answer)
            os.close(theirs)
            while part := readable(ours):
                shown += part
        finally:
            timer.cancel()
            os.close(ours)
    return process.returncode, shown


def readable(terminal: int) -> bytes:
    """What the terminal shows next; nothing once the last program on it has ended."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def test_on_a_terminal_nothing_typed_as_passphrase_is_shown(broker: ScriptedBroker, home: Path) -> None:
    broker.answers("vault.unlock", {"result": {"vault": "ready"}})
    status, shown = on_terminal(["unlock"], [(b": ", b"open sesame\n")])
    assert status == 0
    assert b"sesame" not in shown
    assert f"Passphrase for {home} (from AFFIDAVIT_HOME), broker pid {os.getpid()} ".encode() in shown
    assert broker.asked("vault.unlock") == [{"passphrase": "open sesame"}]


@pytest.mark.parametrize(("typed", "status"), [(b"approve\n", 0), (b"y\n", 1), (b"\n", 1)])
def test_on_a_terminal_approve_asks_once_more(carded: ScriptedBroker, typed: bytes, status: int) -> None:
    ended, shown = on_terminal(["approve", ACT], [(b": ", b"pw\n"), (b"waiting: ", typed)])
    assert ended == status
    assert shown.index(b"Fingerprint") < shown.index(b"Type approve")
    assert len(carded.asked("approval.approve")) == (1 if status == 0 else 0)


def test_without_a_terminal_it_asks_for_a_descriptor(broker: ScriptedBroker) -> None:
    command = [sys.executable, "-P", "-m", "affidavit.ipc.cli", "unlock"]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, start_new_session=True, timeout=60)
    assert done.returncode == 2
    assert b"Give --passphrase-fd N." in done.stderr
