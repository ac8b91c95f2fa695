"""Cards to test and to look at: the refund of the design's pictures, and what it becomes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from affidavit.broker.card import SSH, Answer, Answers, Card, CredentialShown, NewHostKey, Notice, NoticeKind, Scope
from affidavit.broker.session import Claim, Process, Provenance, Session
from affidavit.broker.terms import ApprovalMode, Effect, InvocationId, Micros, OperationId, SessionId

NOW = Micros(int(datetime(2026, 11, 30, 14, 2, 11, tzinfo=UTC).timestamp() * 1_000_000))
SECOND = 1_000_000
HOME = "/home/op"


def _process(pid: int, name: str, **more: object) -> Process:
    return Process(pid=pid, started=91_000 + pid, name=name, **more)  # type: ignore[arg-type]


SESSION = Session(
    SessionId("ses_1"),
    Provenance(
        uid=1000,
        process=_process(48213, "node", exe="/usr/bin/node", cwd=f"{HOME}/src/shop-support", device=64769, inode=4711),
        peer=_process(48300, "node"),
        chain=(_process(48000, "zsh"), _process(47000, "alacritty")),
    ),
    Claim("Claude Code", "2.3"),
)
REFUND = {
    "payment": "pay_9Kd2hX7",
    "amount": 4900,
    "currency": "eur",
    "reason": "requested_by_customer",
    "metadata": {"order": "1187"},
}
ANSWERS = Answers(
    binds_retries=Answer("Idempotency-Key, same key for 24 h", present=True),
    lookup=Answer("GET /v1/refunds by our operation id", present=True),
    on_connection_death=Answer("Record that the request was sent; the key replays the first answer", present=True),
)
WRITE = Card(
    invocation_id=InvocationId("act_01J9ZK0000000000000000REF1"),
    operation_id=OperationId("op_7d5d4d8e"),
    session=SESSION,
    reason="Order 1187 came back; refund the customer",
    effect=Effect.WRITE,
    title="Create a refund",
    method="POST",
    url="https://api.example.com/v1/refunds?expand=charge&notify=true",
    headers=(("content-type", "application/json"),),
    body=json.dumps(REFUND, separators=(",", ":")).encode(),
    body_type="application/json",
    credential=CredentialShown("refunds-test", 4, "Authorization header"),
    contract_id="example.refunds.create",
    contract_checked="2026-11-30",
    answers=ANSWERS,
    fingerprint="sha256:8b1f20c4e77a03d95c619ae24fb871d0" + "5e" * 16,
    mode=ApprovalMode.ALWAYS,
    scopes=(Scope.ONCE,),
    preselected=Scope.ONCE,
    notices=(),
    tick=None,
    asked_at=NOW,
    shown_s=120,
)
LONGER = replace(
    WRITE,
    body=json.dumps({**REFUND, "lines": [{"sku": f"TS-{100 + n}", "qty": n} for n in range(9)]}).encode(),
    fingerprint="sha256:d03e77b14a90ce2519f8b36c8de40a57" + "5e" * 16,
)
TWIN = replace(
    WRITE,
    notices=(
        Notice(
            NoticeKind.SAME_EFFECT_UNKNOWN,
            invocation_id=InvocationId("act_01J9ZK0000000000000000REF0"),
            record=41,
            at=Micros(NOW - 12 * 60 * SECOND),
        ),
    ),
    tick="I accept that the refund may happen twice",
    fingerprint="sha256:6e12fa089c4d21b7d59038eac7f354b6" + "5e" * 16,
)
TWINS = replace(
    TWIN,
    notices=(
        *TWIN.notices,
        Notice(
            NoticeKind.SAME_ROUTE_UNKNOWN,
            invocation_id=InvocationId("act_01J9ZK0000000000000000REF9"),
            record=37,
            at=Micros(NOW - 3 * 3600 * SECOND),
        ),
    ),
)
READ = replace(
    WRITE,
    invocation_id=InvocationId("act_01J9ZK0000000000000000ISS1"),
    session=Session(
        SessionId("ses_2"),
        Provenance(
            uid=1000,
            process=_process(51902, "python3.12", exe="/usr/bin/python3.12", cwd=f"{HOME}/src/triage-bot"),
            peer=_process(51902, "python3.12"),
            chain=(_process(51000, "uv"), _process(50000, "bash"), _process(49000, "tmux")),
        ),
        Claim("issue-triage", "0.4"),
    ),
    reason="Collect open refund issues",
    effect=Effect.READ,
    title="List issues",
    method="GET",
    url="https://api.github.com/repos/example-org/shop/issues?state=open&labels=refund&per_page=50",
    headers=(),
    body=b"",
    body_type=None,
    credential=CredentialShown("github-issues-ro", 2, "Authorization header"),
    contract_id="default.read",
    contract_checked=None,
    answers=Answers(
        binds_retries=Answer("Assumed: a read may be repeated", present=True),
        lookup=Answer("Not needed: nothing changes", present=True),
        on_connection_death=Answer("The record that it was sent", present=True),
    ),
    fingerprint="sha256:02ce9f41b7d06a18e3c570fa1d2988b4" + "5e" * 16,
    mode=ApprovalMode.SESSION,
    scopes=(Scope.ONCE, Scope.SESSION),
    preselected=Scope.SESSION,
    grant_until=Micros(NOW + 30 * 60 * SECOND),
)
PASSPHRASE = replace(WRITE, mode=ApprovalMode.PASSPHRASE)
NO_CONTRACT = replace(
    WRITE,
    title="POST to api.example.com",
    contract_id="default.write",
    contract_checked=None,
    answers=Answers(
        binds_retries=Answer("Nothing", present=False),
        lookup=Answer("Nothing", present=False),
        on_connection_death=Answer("Only the record that it was sent", present=False),
    ),
    credential=None,
    body=b"note=" + "a\u202eb\u200b".encode() + b"&long=" + b"x" * 300,
    body_type="application/x-www-form-urlencoded",
    headers=(("content-type", "application/x-www-form-urlencoded"), ("x-trace", "run\u202e42")),
    url="https://xn--bcher-kva.example:8443/a/very/long/path/" + "segment/" * 12 + "?q=1",
    reason="Look: \u202edesrever\u202c and\nmore " + "words " * 40,
)
LONG = replace(WRITE, body=json.dumps({"rows": list(range(600))}).encode())
CHANGED = replace(
    WRITE,
    url="https://api.example.com/v1/refunds?expand=charge&notify=false",
    last_url=WRITE.url,
    notices=(Notice(NoticeKind.FIRST_CONTACT), Notice(NoticeKind.CONTRACT_FIRST_USE)),
)
NEW_KEY = replace(
    WRITE,
    reason="Worker stopped taking refund jobs",
    title="Run a command on web-02",
    method=SSH,
    url="ssh://deploy@web-02.example.com:22 via deploy@bastion.example.com:22",
    headers=(),
    body=b"$ sudo systemctl restart shop-worker && journalctl -u shop-worker -n 20 --no-pager",
    body_type="a command and its input",
    credential=CredentialShown("deploy-key", 1, "SSH key"),
    contract_id="default.write",
    contract_checked=None,
    answers=NO_CONTRACT.answers,
    notices=(
        Notice(
            NoticeKind.NEW_HOST_KEY,
            host_key=NewHostKey(
                host="web-02",
                authority="web-02.example.com:22",
                algorithm="ssh-ed25519",
                fingerprint="SHA256:7Qm4kV0xPz2r9sLhaT6EwB1dYc8NuJ3fLk2Re5XnGt4",
            ),
        ),
    ),
    fingerprint="sha256:c4a91e0752bdf86c3390d7e10b5aa42f" + "5e" * 16,
)
