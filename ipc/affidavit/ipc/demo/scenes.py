"""The scenes of the tour, in order. Each shows one thing, on the real product, and checks it from three sides: what the
agent was told, what the record says, and what the practice service's own log saw arrive."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from affidavit.ipc.cli import exits
from affidavit.ipc.client import ClientError
from affidavit.ipc.demo import tamper
from affidavit.ipc.demo.board import Board
from affidavit.ipc.demo.operators import OperatorPlayer
from affidavit.ipc.demo.stage import CREDENTIAL, STALE, Ran, Running, Stage, StageTrouble
from affidavit.ipc.verdict import facts


@dataclass(frozen=True, slots=True)
class Asked:
    """One agent's call that is over: how it ended, and the card that was shown for it, if any."""

    ran: Ran
    card: Mapping[str, Any] | None

    @property
    def envelope(self) -> dict[str, Any]:
        return self.ran.json

    @property
    def evidence(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.envelope.get("evidence") or {}
        return found

    @property
    def invocation_id(self) -> str:
        return str(self.envelope["invocation_id"])


@dataclass(slots=True)
class Tour:
    """What every scene works with. `seen` counts the arrivals that earlier scenes have accounted for."""

    stage: Stage
    board: Board
    operator: OperatorPlayer
    seen: int = 0

    # An agent's calls

    def ask(self, *words: str, approve: bool = True, reason: str = "") -> Asked:
        """Make an agent's call to its end; if it opens a card, have the operator decide it."""
        running = self.stage.agent(*words, "--wait", "600")
        return self.end(running, self.decided(running, approve=approve, reason=reason))

    def decided(self, running: Running, *, approve: bool = True, reason: str = "") -> Mapping[str, Any] | None:
        """Wait until the call has a card or is over; the card is put before the operator."""
        self.board.shown("agent:", running.shown.removesuffix(" --wait 600"))
        found: list[Mapping[str, Any]] = []

        def card_or_end() -> bool:
            if running.process.poll() is not None:
                return True
            found[:] = self.stage.cards()
            return bool(found)

        self.stage.until(card_or_end, f"`{running.shown}` had neither a card nor an answer")
        if not found:
            return None
        card = found[0]
        self.board.shown("card:", f"{card['effect'].upper()} {card['title']}, {' '.join(card['fingerprint_groups'])}")
        self.operator.decide(self.stage, self.board, card, approve=approve, reason=reason)
        return card

    def end(self, running: Running, card: Mapping[str, Any] | None) -> Asked:
        """What the agent was told."""
        asked = Asked(self.stage.finish(running), card)
        said = facts(asked.envelope)
        self.board.shown(
            "agent saw:", f"{said['code']}, {said['outcome']}, retry {said['retry']}; exit {asked.ran.status}"
        )
        self.board.shown("", str(said.get("message", "")))
        return asked

    def http(self, method: str, path: str, body: Mapping[str, Any] | None = None, *more: str) -> tuple[str, ...]:
        """The words of an agent's HTTP call to the practice service."""
        words = ("http", method, self.stage.origin + path, *more)
        if "--credential" not in more:
            words += ("--credential", CREDENTIAL)
        if body is None:
            return words
        return (*words, "-H", "Content-Type: application/json", "-d", json.dumps(body))

    # What the service saw

    def arrived(self, count: int, did: str | None = None) -> list[dict[str, Any]]:
        """Check how many requests arrived since the last time this was asked, and what each led to."""
        arrivals = self.stage.arrivals()
        new = arrivals[self.seen :]
        self.seen = len(arrivals)
        for told in [told_of(line) for line in new] or ["no request"]:
            self.board.shown("service log:", told)
        self.board.equal("number of requests that arrived", len(new), count)
        if did is not None:
            self.board.equal("what each led to", sorted({line["did"] for line in new}), [did])
        return new


def told_of(line: Mapping[str, Any]) -> str:
    answer = "no answer" if line["status"] is None else f"answer {line['status']}"
    effect = f", made {line['effect']}" if line["effect"] else ""
    return f"{line['method']} {line['path']}: {line['did']}{effect}, {answer}"


def read_under_a_grant(tour: Tour) -> None:
    tour.board.scene(
        "A read, allowed for the session",
        "An agent reads the account. It never holds the token: Affidavit adds it. The first read opens a card; the "
        "operator allows this read for the session. The second one goes out under that grant, without a card.",
    )
    first = tour.ask(*tour.http("GET", "/v1/account"))
    tour.board.equal("exit status", first.ran.status, exits.DONE)
    tour.board.facts(first.envelope, outcome="committed", code="REMOTE_RESULT", retry="never")
    tour.board.check("a card was shown first", first.card is not None)
    tour.arrived(1, "read")
    second = tour.ask(*tour.http("GET", "/v1/account"))
    tour.board.facts(second.envelope, outcome="committed", code="REMOTE_RESULT")
    tour.board.check("no card was shown this time", second.card is None)
    tour.board.equal("means of authorisation", authorization(second).get("means"), "grant")
    tour.arrived(1, "read")


def authorization(asked: Asked) -> Mapping[str, Any]:
    found: Mapping[str, Any] = asked.evidence.get("authorization") or {}
    return found


TRANSFER = {"amount": 1200, "reference": "invoice-118"}


def write_approved(tour: Tour) -> None:
    tour.board.scene(
        "A write, approved on its card",
        "A write opens a card each time. The card shows the fingerprint of exactly what will be sent; it is computed "
        "again right before the first byte leaves. Until the operator decides, nothing arrives at the service.",
    )
    running = tour.stage.agent(*tour.http("POST", "/v1/transfers", TRANSFER), "--wait", "600")
    tour.stage.until(lambda: bool(tour.stage.cards()) or running.process.poll() is not None, "No card opened")
    tour.arrived(0)
    asked = tour.end(running, tour.decided(running))
    tour.board.equal("exit status", asked.ran.status, exits.DONE)
    tour.board.facts(asked.envelope, outcome="committed", code="REMOTE_RESULT", retry="never")
    fingerprint = None if asked.card is None else asked.card["fingerprint"]
    tour.board.equal("fingerprint of what was sent", asked.evidence.get("fingerprint"), fingerprint)
    tour.board.equal("decision", authorization(asked).get("decision"), "approved")
    tour.arrived(1, "applied")


def write_denied(tour: Tour) -> None:
    tour.board.scene(
        "The same write, denied",
        "The operator says no, with a reason. The agent is told that nothing was sent and that it must not ask again; "
        "the service's log agrees.",
    )
    asked = tour.ask(*tour.http("POST", "/v1/transfers", TRANSFER), approve=False, reason="not without a ticket")
    tour.board.equal("exit status", asked.ran.status, exits.NOT_ATTEMPTED)
    tour.board.facts(
        asked.envelope,
        outcome="not_attempted",
        code="APPROVAL_DENIED",
        phase="credential_injection",
        retry="never",
    )
    tour.board.equal("dispatch_started", asked.evidence.get("dispatch_started"), False)
    tour.arrived(0)


def closed_port(tour: Tour) -> None:
    tour.board.scene(
        "A closed port",
        "Nobody listens there. Affidavit tries to connect three times inside this one action and keeps what each try "
        "saw. No connection came to be, so nothing can have been sent: not attempted, and it may be tried again.",
    )
    url = f"http://127.0.0.1:{tour.stage.closed_port}/v1/account"
    asked = tour.ask("http", "GET", url, "--credential", CREDENTIAL)
    tour.board.equal("exit status", asked.ran.status, exits.NOT_ATTEMPTED)
    tour.board.facts(
        asked.envelope,
        outcome="not_attempted",
        code="CONNECT_FAILED",
        phase="connection_setup",
        retry="backoff",
    )
    tries = asked.evidence.get("attempts") or []
    for each in tries:
        tour.board.shown(f"try {each['n']}:", f"stopped at {each['stage']}, {each['code']}")
    tour.board.equal("codes of the tries", [each["code"] for each in tries], ["ECONNREFUSED"] * 3)
    tour.board.equal("dispatch_started", asked.evidence.get("dispatch_started"), False)
    tour.arrived(0)


def answer_lost(tour: Tour) -> None:
    tour.board.scene(
        "The service pays and hangs up",
        "The request arrives, the payment is made, and the connection closes without an answer. From here it cannot be "
        "known whether it happened: unknown. An agent that did not wait for proof would now pay twice.",
    )
    body = {"amount": 4200, "reference": "invoice-119", "practice": "apply_then_hang_up"}
    asked = tour.ask(*tour.http("POST", "/v1/payments", body, "--operation-id", "op_invoice-119"))
    tour.board.equal("exit status", asked.ran.status, exits.UNKNOWN)
    tour.board.facts(
        asked.envelope,
        outcome="unknown",
        code="REMOTE_OUTCOME_UNKNOWN",
        phase="remote_execution",
        retry="same_idempotency_key",
    )
    tour.board.equal("request_complete", asked.evidence.get("request_complete"), True)
    (arrival, *_) = tour.arrived(1, "applied") or [{}]
    key = (asked.evidence.get("idempotency") or {}).get("key")
    tour.board.equal("key that arrived", (arrival.get("headers") or {}).get("idempotency-key"), key)

    tour.board.line()
    tour.board.say("The agent sends the same operation again. It gets the recorded answer; nothing is sent.")
    again = tour.ask(*tour.http("POST", "/v1/payments", body, "--operation-id", "op_invoice-119"))
    tour.board.equal("invocation", again.invocation_id, asked.invocation_id)
    tour.board.facts(again.envelope, outcome="unknown", code="REMOTE_OUTCOME_UNKNOWN")
    tour.arrived(0)

    tour.board.line()
    tour.board.say("It tries the same payment under no name of its own. The look-alike is held back.")
    twin = tour.ask(*tour.http("POST", "/v1/payments", body))
    tour.board.equal("exit status", twin.ran.status, exits.NOT_ATTEMPTED)
    tour.board.facts(
        twin.envelope, outcome="not_attempted", code="UNRESOLVED_DUPLICATE", phase="validation", retry="reconcile"
    )
    tour.board.equal("what it refers to", twin.evidence.get("refers_to"), asked.invocation_id)
    tour.arrived(0)

    attested(tour, asked.invocation_id)


def attested(tour: Tour, invocation_id: str) -> None:
    """The second half of `answer_lost`: a person settles what no record could."""
    tour.board.line()
    tour.board.say(
        "The operator looks into the account, finds the payment, and attests it. The attestation is added beside the "
        "attempt; the attempt's own record stays as it was."
    )
    before = shown(tour, invocation_id)
    tour.operator.before_attesting(tour.board)
    if facts(shown(tour, invocation_id))["outcome"] == "unknown":
        ran = tour.stage.operator(
            *(
                "attest",
                invocation_id,
                "--outcome",
                "committed",
                "--note",
                "It stands in the account.",
                "--reference",
                "pay_1",
            )
        )
        tour.board.shown("operator:", ran.shown)
        tour.board.equal("exit status of attest", ran.status, exits.DONE)
    after = shown(tour, invocation_id)
    tour.board.facts(after, outcome="committed", code="SETTLED_BY_OPERATOR", retry="never")
    tour.board.equal("source", (after.get("settled") or {}).get("source"), "operator_attested")
    kept = after["events"][: len(before["events"])]
    for event in after["events"]:
        tour.board.shown(f"record {event['record']}:", event["kind"])
    tour.board.check("every earlier record is still there, unchanged", kept == before["events"])
    kinds = [event["kind"] for event in after["events"]]
    tour.board.check("the unknown outcome is still on record", "OUTCOME_UNKNOWN" in kinds, kinds)
    tour.board.equal("newest record", kinds[-1], "OUTCOME_SETTLED")
    tour.arrived(0)


def shown(tour: Tour, name: str) -> dict[str, Any]:
    """What the records say of an action, as any agent may ask."""
    return tour.stage.finish(tour.stage.agent("action", "show", name)).json


def rejected(tour: Tour) -> None:
    tour.board.scene(
        "A wrong token",
        "The service answers 401, completely. That is a refusal that claims no success: rejected, and the answer says "
        "what is needed.",
    )
    asked = tour.ask(*tour.http("GET", "/v1/account", None, "--credential", STALE))
    tour.board.equal("exit status", asked.ran.status, exits.REJECTED)
    tour.board.facts(
        asked.envelope, outcome="rejected", code="REMOTE_REJECTED", retry="after_correction", needs="credential"
    )
    arrivals = tour.arrived(1, "refused")
    tour.board.equal("authorized, in the service's log", [line["authorized"] for line in arrivals], [False])


def error_after_effect(tour: Tour) -> None:
    tour.board.scene(
        "An error after the effect",
        "The service makes the transfer, then breaks and answers 500. The answer is complete and known, so the outcome "
        "is committed; it is no success, and a blind repeat would transfer twice. The advice is to look first.",
    )
    body = {"amount": 300, "reference": "invoice-120", "practice": "apply_then_500"}
    asked = tour.ask(*tour.http("POST", "/v1/transfers", body))
    tour.board.equal("exit status", asked.ran.status, exits.COMMITTED_OTHER)
    tour.board.facts(asked.envelope, outcome="committed", code="REMOTE_RESULT", retry="reconcile")
    tour.board.equal("status", (asked.envelope.get("http") or {}).get("status"), 500)
    tour.arrived(1, "applied")


def broker_killed(tour: Tour) -> None:
    tour.board.scene(
        "Affidavit itself is killed while it waits",
        "The request has arrived and the answer is still to come when the broker's process is killed (kill -9). After "
        "the restart the journal knows that it was sent, and that no answer was recorded. It is not sent again.",
    )
    body = {"amount": 500, "reference": "invoice-121", "practice": "slow", "slow_s": 3600}
    words = tour.http("POST", "/v1/transfers", body, "--operation-id", "op_invoice-121", "--deadline", "600")
    running = tour.stage.agent(*words, "--wait", "600")
    tour.decided(running)
    before = tour.seen
    tour.stage.until(lambda: len(tour.stage.arrivals()) > before, "The transfer did not arrive")
    tour.stage.kill_broker()
    lost = tour.stage.finish(running)
    tour.board.shown("agent saw:", f"{lost.err.splitlines()[0]}; exit {lost.status}")
    tour.board.equal("exit status", lost.status, exits.NOT_REACHABLE)
    tour.board.equal("first line on stderr", lost.err.splitlines()[0], "op_invoice-121")
    tour.arrived(1, "applied")
    tour.stage.start_broker()
    found = shown(tour, "op_invoice-121")
    tour.board.facts(found, outcome="unknown", code="BROKER_RESTARTED", phase="remote_execution", retry="reconcile")
    tour.board.equal("dispatch_started", (found.get("evidence") or {}).get("dispatch_started"), True)
    again = tour.ask(*words)
    tour.board.equal("exit status of the same operation again", again.ran.status, exits.UNKNOWN)
    tour.board.equal("invocation", again.invocation_id, found["invocation_id"])
    tour.arrived(0)


def secret_nowhere(tour: Tour) -> None:
    tour.board.scene(
        "The secret is nowhere",
        "Every file of the home, every log, every line that a command printed, and the running broker's environment "
        "and arguments are searched for the practice token: as it stands, in hex and in base64.",
    )
    tour.board.equal("places where it was found", tour.stage.traces(), [])


def record_changed(tour: Tour) -> None:
    tour.board.scene(
        "One byte of a record is changed",
        "The broker stops. Someone who holds this machine's key opens the journal's file and changes one byte of one "
        "record. The chain of hashes runs over what is stored, so verifying names that record.",
    )
    tour.board.equal("exit status of the broker", tour.stage.stop_broker(), 0)
    whole = tour.stage.operator("audit", "verify", passphrase=False)
    tour.board.shown("verify:", whole.json["message"])
    tour.board.equal("exit status before", whole.status, exits.DONE)
    changed = tamper.change_one_byte(tour.stage.home)
    broken = tour.stage.operator("audit", "verify", passphrase=False)
    tour.board.shown("verify:", broken.json["message"])
    tour.board.equal("exit status after", broken.status, exits.REFUSED)
    tour.board.equal("record that it names", (broken.json.get("broken") or {}).get("record"), changed)


Scene = Callable[[Tour], None]

SCENES: tuple[Scene, ...] = (
    read_under_a_grant,
    write_approved,
    write_denied,
    closed_port,
    answer_lost,
    rejected,
    error_after_effect,
    broker_killed,
    secret_nowhere,
    record_changed,
)


def play(tour: Tour) -> None:
    """Every scene. One that cannot go on is a check that did not hold; the next one is played all the same."""
    for scene in SCENES:
        try:
            tour.seen = len(tour.stage.arrivals())
            scene(tour)
        except (StageTrouble, ClientError, LookupError, TypeError, ValueError) as trouble:
            tour.board.check("the scene could be played to its end", held=False, found=trouble)
