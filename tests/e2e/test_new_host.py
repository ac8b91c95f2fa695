"""Hosts under `accept-new` on real OpenSSH servers: the key that a card shows is pinned, and no other one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.broker.wire.ssh.sshd import USER, Sshd, public
from tests.e2e.conftest import World
from tests.e2e.rig import LIMIT_S, Broker, Envelope, Home, answer, copy_of, facts, until

from affidavit.ipc.client import Client


@dataclass(frozen=True, slots=True)
class Stage:
    """A broker, one server, and entries for it that know no key of it: `web`, and `inner` behind `jump`."""

    broker: Broker
    sshd: Sshd
    marks: Path

    def card(self, pending: Envelope) -> Mapping[str, Any]:
        """The card of an action, once it waits; as `affidavit approve` shows it."""
        named = {"invocation_id": pending["invocation_id"]}
        with self.broker.operator() as operator:
            until(
                lambda: any(
                    card["invocation_id"] == named["invocation_id"] for card in operator.call("approval.list")["cards"]
                ),
                "a card",
            )
        return self.operate("approval.show", **named)

    def approve(self, agent: Client, pending: Envelope) -> Envelope:
        self.card(pending)
        named = {"invocation_id": pending["invocation_id"]}
        self.operate("approval.approve", **named)
        return answer(agent, "action.wait", {**named, "wait_s": LIMIT_S})

    def ask(self, agent: Client, host: str, mark: str) -> Envelope:
        return answer(agent, "ssh.exec", {"host": host, "command": f"echo {mark} >> {self.marks}", "wait_s": 0})

    def operate(self, method: str, **params: Any) -> Mapping[str, Any]:
        """An operator's call, with the passphrase."""
        with self.broker.operator() as operator:
            answered: Mapping[str, Any] = operator.call(
                method, {**params, "passphrase": self.broker.home.setting.passphrase}
            )
        return answered

    def keys(self) -> dict[str, list[str]]:
        """The pinned keys of each entry, as fingerprints."""
        hosts = self.operate("host.list")["hosts"]
        return {host["name"]: [key["fingerprint"] for key in host["host_keys"]] for host in hosts}

    def marked(self) -> list[str]:
        return self.marks.read_text().split() if self.marks.exists() else []


def shown_key(card: Mapping[str, Any]) -> Mapping[str, Any]:
    (notice,) = (notice for notice in card["notices"] if notice["kind"] == "new_host_key")
    key: Mapping[str, Any] = notice["host_key"]
    return key


@pytest.fixture
def stage(world: World, tmp_path: Path) -> Iterator[Stage]:
    home = copy_of(world.template)
    try:
        with Sshd(tmp_path / "sshd") as sshd:
            _set_up(home, sshd)
            with home.serve() as broker:
                yield Stage(broker, sshd, tmp_path / "marks")
                assert [line for line in broker.said if "Traceback" in line or "failed with" in line] == []
                assert broker.stop() == 0
        assert home.intact()
    finally:
        home.remove()


def _set_up(home: Home, sshd: Sshd) -> None:
    credential = ("credential", "add", "key", "--kind", "ssh-key", "--target", "127.0.0.1", "--target", "localhost")
    lax = ("--port", str(sshd.port), "--user", USER, "--credential", "key", "--host-key-policy", "accept-new")
    for ran in (
        home.operate(*credential, secret=sshd.user_key.read_text()),
        home.operate("host", "add", "web", "--address", "127.0.0.1", *lax),
        home.operate("host", "add", "jump", "--address", "localhost", *lax),
        home.operate("host", "add", "inner", "--address", "127.0.0.1", "--jump", "jump", *lax),
    ):
        assert ran.status == 0, ran


def test_the_key_on_the_card_is_the_servers_and_the_command_runs_under_it(stage: Stage) -> None:
    own = public(stage.sshd.host_key)
    with stage.broker.agent() as agent:
        pending = stage.ask(agent, "web", "first")
        card = stage.card(pending)
        key = shown_key(card)
        assert (key["algorithm"], key["fingerprint"]) == (own.algorithm, own.fingerprint)
        assert (stage.keys()["web"], stage.marked()) == ([], [])
        done = stage.approve(agent, pending)
        assert facts(done)["outcome"] == "committed", done
        assert done["evidence"]["connection"]["identity"] == own.identity
        assert done["evidence"]["fingerprint"] == card["fingerprint"]
        assert (stage.keys()["web"], stage.marked()) == ([own.fingerprint], ["first"])
        again = stage.ask(agent, "web", "second")
        assert [notice["kind"] for notice in stage.card(again)["notices"]] == []


def test_a_key_that_changes_while_the_card_waits_is_a_mismatch(stage: Stage) -> None:
    with stage.broker.agent() as agent:
        pending = stage.ask(agent, "web", "first")
        shown = shown_key(stage.card(pending))["fingerprint"]
        changed = stage.sshd.change_key().fingerprint
        assert changed != shown
        refused = stage.approve(agent, pending)
        told = {name: facts(refused)[name] for name in ("code", "outcome", "phase", "retry")}
        assert told == {
            "code": "HOST_KEY_MISMATCH",
            "outcome": "not_attempted",
            "phase": "connection_setup",
            "retry": "after_correction",
        }
        assert refused["evidence"]["attempts"][0]["stage"] == "host_key"
        later = stage.approve(agent, stage.ask(agent, "web", "second"))
        assert facts(later)["code"] == "HOST_KEY_MISMATCH"
        assert (stage.keys()["web"], stage.marked()) == ([shown], [])
        stage.operate("host.edit", name="web", forget_keys=[shown])
        pending = stage.ask(agent, "web", "third")
        assert shown_key(stage.card(pending))["fingerprint"] == changed
        assert facts(stage.approve(agent, pending))["outcome"] == "committed"
    assert (stage.keys()["web"], stage.marked()) == ([changed], ["third"])


def test_a_revoked_key_is_no_card(stage: Stage) -> None:
    own = public(stage.sshd.host_key)
    stage.operate("host.import", text=f"@revoked [127.0.0.1]:{stage.sshd.port} {own.line}\n")
    with stage.broker.agent() as agent:
        params = {"host": "web", "command": f"echo no >> {stage.marks}", "wait_s": LIMIT_S}
        refused = answer(agent, "ssh.exec", params)
    assert (facts(refused)["code"], facts(refused)["outcome"]) == ("HOST_KEY_UNKNOWN", "not_attempted")
    assert [tried["code"] for tried in refused["evidence"]["attempts"]] == ["HOST_KEY_REVOKED"]
    assert (stage.keys()["web"], stage.marked()) == ([], [])


def test_two_new_hosts_on_one_way_have_a_card_each(stage: Stage) -> None:
    own = public(stage.sshd.host_key).fingerprint
    with stage.broker.agent() as agent:
        pending = stage.ask(agent, "inner", "inner")
        key = shown_key(stage.card(pending))
        assert (key["host"], key["next_host"], key["fingerprint"]) == ("jump", "inner", own)
        ended = stage.approve(agent, pending)
        assert (facts(ended)["code"], facts(ended)["outcome"]) == ("HOST_KEY_UNKNOWN", "not_attempted")
        assert (stage.keys()["jump"], stage.keys()["inner"], stage.marked()) == ([own], [], [])
        pending = stage.ask(agent, "inner", "inner")
        key = shown_key(stage.card(pending))
        assert (key["host"], key["next_host"], key["fingerprint"]) == ("inner", None, own)
        done = stage.approve(agent, pending)
        assert facts(done)["outcome"] == "committed", done
    assert (stage.keys()["inner"], stage.marked()) == ([own], ["inner"])
