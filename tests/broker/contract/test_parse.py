"""Contract files: all that is taken, and all that is refused, with its line, key and fix (interface, 6)."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.contract import Contract, ContractRefused, HttpMatch, Problem, SshMatch, parse
from affidavit.broker.contract.grammar import GRAMMAR, Either, Key, ListOf, TableOf, Type
from affidavit.broker.contract.model import (
    Absent,
    Batch,
    BatchOutcome,
    BodyVerdict,
    Completion,
    CompletionKind,
    Correlation,
    Deadlines,
    Eventual,
    ExitVerdict,
    Idempotent,
    Place,
    PlaceKind,
    ReadTerms,
    RetryAfter,
    RetryTerms,
    Row,
    Sign,
    Template,
    Where,
)
from affidavit.broker.contract.parse import MAX_FILE
from affidavit.broker.terms import ApprovalMode, Effect, Outcome, Retry

DOCS = Path(__file__).parents[3] / "docs" / "contracts.md"

LEAST = """id = "example.least"
[match]
kind = "http"
url = "https://api.example.com/v1/payments"
[effect]
kind = "write"
"""

FULL = """
id = "example.payments.create"
title = "Create a payment"
source = "https://docs.example.com/idempotency"    # where each promise was read
checked = 2026-11-30

[match]
kind = "http"
method = ["POST"]
url = "https://api.example.com/v1/payments"
where = [{ pointer = "/operationName", equals = "issueCreate" }, { query = "Action", equals = "Run" },
         { header = "X-Amz-Target", equals = "T" }]
private = false

[effect]
kind = "write"
idempotent = false
completion = "body"

[correlation]
header = "X-Correlation-ID"
operation = "/metadata/op"

[idempotency]
header = "Idempotency-Key"
quoted = false
max_length = 45
scope = "account"
retention = "24h"
mismatch = "rejected"
replays_errors = true
companions = ["header:Repeatability-First-Sent"]
in_use = [{ status = 409, pointer = "/error/code", equals = "idempotency_key_in_use" }]

[verdict]
refused = [429, 503]
applied = [409, { status = 412, header = "X-Done" }]
rate_limited = [{ status = 403, header = "X-RateLimit-Remaining", equals = "0" }]
body = [{ pointer = "/ok", equals = false, outcome = "rejected" }, { pointer = "/errors", outcome = "unknown" }]
proxy_status = "trusted"

[answers]
on_connection_death = "The object's version shows whether it was applied."

[job]
pointer = "/operation_id"
status_url = "/status_url"
state = "/status"
states = { "succeeded" = "committed", "failed" = "rejected" }

[batch]
by = "key"
items = "/items"
results = "/results"
key = "/id"
outcome = { pointer = "/status", committed = ["created"], rejected = ["invalid"] }
atomic = false

[reconcile]
method = "POST"
url = "https://api.example.com/v1/payments?ref={operation_id}&k={idempotency_key}"
body = '{"query": "{result:/id}"}'
each = "/data"
where = { pointer = "/metadata/op", equals = "{operation_id}" }
state = "/status"
committed = ["succeeded"]
pending = ["processing"]
rejected = ["failed"]
absent = { means = "rejected", after = "60s" }

[deadlines]
request = "30s"
recovery = "10m"

[retry]
attempts = 3
automatic = true
setup = 5
after = "header:X-RateLimit-Reset;epoch"

[redirect]
follow = 1
[result]
expected = "1MiB"
[approval]
mode = "always"
"""

SSH = """
id = "example.deploy"
[match]
kind = "ssh"
host = "web-*"
command = "releasectl deploy *"
[effect]
kind = "write"
idempotent = "name"
completion = "marker"
marker = "live {operation_id}"
[correlation]
operation = "env:RELEASE_ID"
[verdict]
exit = [{ status = 75, outcome = "rejected", retry = "backoff" }, { status = 3 }]
[reconcile]
command = "releasectl status {operation_id}"
state = "/state"
committed = ["live", 1]
rejected = [true]
"""

READ = """
id = "example.read"
[match]
kind = "http"
url = "https://api.example.com/v1/**"
[effect]
kind = "read"
completion = "header:X-Receipt"
[read]
purpose = "decides_write"
consistency = { eventual = "60s" }
[deadlines]
request = "100ms"
"""


def contract(text: str) -> Contract:
    return parse(text, file="example.toml")


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ContractRefused) as refused:
        contract(text)
    return refused.value.problems


def test_the_least() -> None:
    least = contract(LEAST)
    assert (least.id, least.effect, least.idempotent()) == ("example.least", Effect.WRITE, False)
    assert isinstance(least.match, HttpMatch)
    assert (least.match.method, least.match.where, least.match.private) == (None, (), False)
    assert least.effect_terms.completion == Completion(CompletionKind.BODY)
    assert (least.title, least.idempotency, least.reconcile, least.approval) == (None, None, None, None)
    assert (least.retry, least.deadlines, least.redirects, least.key_header) == (RetryTerms(), Deadlines(), 0, None)
    assert not least.is_default


def test_everything_over_http() -> None:
    full = contract(FULL)
    assert (full.title, full.source) == ("Create a payment", "https://docs.example.com/idempotency")
    assert full.checked == datetime.date(2026, 11, 30)
    assert isinstance(full.match, HttpMatch)
    assert full.match.method == ("POST",)
    assert full.match.url.text == "https://api.example.com/v1/payments"
    assert full.match.where == (
        Where(Place(PlaceKind.POINTER, "/operationName"), "issueCreate"),
        Where(Place(PlaceKind.QUERY, "Action"), "Run"),
        Where(Place(PlaceKind.HEADER, "X-Amz-Target"), "T"),
    )
    assert full.correlation == Correlation("X-Correlation-ID", Place(PlaceKind.POINTER, "/metadata/op"))
    key = full.idempotency
    assert key is not None
    assert key.at == Place(PlaceKind.HEADER, "Idempotency-Key")
    assert (key.quoted, key.max_length, key.scope, key.retention_s) == (False, 45, "account", 86400.0)
    assert (key.mismatch, key.replays_errors) == ("rejected", True)
    assert key.companions == ("Repeatability-First-Sent",)
    assert key.in_use == (Sign(409, Place(PlaceKind.POINTER, "/error/code"), "idempotency_key_in_use"),)
    assert full.key_header == "Idempotency-Key"
    assert full.verdict.refused == (429, 503)
    assert full.verdict.applied == (Sign(409), Sign(412, Place(PlaceKind.HEADER, "X-Done")))
    assert full.verdict.rate_limited == (Sign(403, Place(PlaceKind.HEADER, "X-RateLimit-Remaining"), "0"),)
    assert full.verdict.body == (
        BodyVerdict("/ok", False, Outcome.REJECTED),
        BodyVerdict("/errors", None, Outcome.UNKNOWN),
    )
    assert full.verdict.proxy_status == "trusted"
    assert full.on_connection_death == "The object's version shows whether it was applied."
    assert full.job is not None
    assert (full.job.pointer, full.job.status_url) == ("/operation_id", Place(PlaceKind.POINTER, "/status_url"))
    assert full.job.states == {"succeeded": Outcome.COMMITTED, "failed": Outcome.REJECTED}
    outcome = BatchOutcome("/status", ("created",), ("invalid",))
    assert full.batch == Batch("key", "/items", "/results", "/id", outcome, atomic=False)
    look_up = full.reconcile
    assert look_up is not None
    assert look_up.method == "POST"
    assert look_up.url is not None
    assert look_up.url.names == ("operation_id", "idempotency_key")
    assert look_up.body == Template('{"query": "{result:/id}"}', ("result:/id",))
    assert look_up.where == Row("/metadata/op", Template("{operation_id}", ("operation_id",)))
    assert (look_up.committed, look_up.pending, look_up.rejected) == (("succeeded",), ("processing",), ("failed",))
    assert look_up.absent == Absent(Outcome.REJECTED, 60.0)
    assert full.deadlines == Deadlines(30.0, 600.0)
    assert full.retry == RetryTerms(3, True, 5, RetryAfter("X-RateLimit-Reset", epoch=True))
    assert (full.redirects, full.expected_result, full.approval) == (1, 1024 * 1024, ApprovalMode.ALWAYS)


def test_everything_over_ssh() -> None:
    ssh = contract(SSH)
    assert isinstance(ssh.match, SshMatch)
    assert ssh.match.pattern.matches("web-1", "releasectl deploy 4")
    assert (ssh.effect_terms.idempotent, ssh.idempotent()) == (Idempotent.NAME, True)
    assert ssh.effect_terms.completion == Completion(
        CompletionKind.MARKER, marker=Template("live {operation_id}", ("operation_id",))
    )
    by_option = contract(SSH.replace("env:RELEASE_ID", "arg:--release-id="))
    assert by_option.correlation == Correlation(None, Place(PlaceKind.ARG, "--release-id="))
    unnamed = contract(SSH.replace('marker = "live {operation_id}"\n', ""))
    assert unnamed.effect_terms.completion.marker == Template("{operation_id}", ("operation_id",))
    assert ssh.correlation == Correlation(None, Place(PlaceKind.ENV, "RELEASE_ID"))
    assert ssh.verdict.exit == (
        ExitVerdict(75, Outcome.REJECTED, Retry.BACKOFF),
        ExitVerdict(3, Outcome.COMMITTED, None),
    )
    assert ssh.reconcile is not None
    assert ssh.reconcile.command == Template("releasectl status {operation_id}", ("operation_id",))
    assert (ssh.reconcile.committed, ssh.reconcile.rejected) == (("live", 1), (True,))


def test_a_read() -> None:
    read = contract(READ)
    assert (read.effect, read.effect_terms.idempotent, read.idempotent()) == (Effect.READ, Idempotent.YES, True)
    assert read.read == ReadTerms("decides_write", Eventual(60.0))
    assert read.effect_terms.completion == Completion(CompletionKind.HEADER, "X-Receipt")
    assert read.deadlines == Deadlines(0.1, None)
    header = contract(READ.replace('{ eventual = "60s" }', '"header:ETag"'))
    assert header.read == ReadTerms("decides_write", Place(PlaceKind.HEADER, "ETag"))


def test_idempotent_by_condition() -> None:
    for word in ("if-match", "if-none-match"):
        conditional = contract(LEAST + f'idempotent = "{word}"\n')
        assert conditional.idempotent(["accept", word]) is True
        assert conditional.idempotent(["accept"]) is False


def test_the_digest_is_over_the_content() -> None:
    least = contract(LEAST).digest
    content = {
        "id": "example.least",
        "match": {"kind": "http", "url": "https://api.example.com/v1/payments"},
        "effect": {"kind": "write"},
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert least == "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    assert contract("# why\n" + LEAST.replace(" = ", "=")).digest == least
    assert contract(LEAST.replace('"write"', '"read"')).digest != least
    assert contract("checked = 2026-11-30\n" + LEAST).digest != least
    assert contract("checked = 2026-11-30\n" + LEAST).digest != contract("checked = 2026-11-29\n" + LEAST).digest


# Refusals. Each case: what is put into a file, where the problem is, and words of message and fix.

HTTP_TOP = 'source = "s"\nchecked = 2026-11-30\n' + LEAST
WRITE = len(HTTP_TOP.splitlines())


STATES = "state = '/s'\nstates = { a = 'committed' }"


@pytest.mark.parametrize(
    ("added", "key", "line", "says"),
    [
        ("idempotant = true", "effect.idempotant", 1, "is not a key here. Did you mean `idempotent`?"),
        ("zzz = 1", "effect.zzz", 1, "The keys here are: kind, idempotent, completion."),
        ("idempotent = 1", "effect.idempotent", 1, "Write true, false"),
        ('idempotent = "yes"', "effect.idempotent", 1, "Write true, false"),
        ('completion = "exit_status"', "effect.completion", 1, "over http ends"),
        ('completion = "header:"', "effect.completion", 1, "header's name"),
        ('completion = "eof"', "effect.completion", 1, "not a way"),
        ("[reed]", "reed", 1, "Did you mean `read`?"),
        ("[verdict]", "verdict", 1, "is an empty section"),
        ("[correlation]\noperation = 'env:X'", "correlation.operation", 2, "no place in a request over http"),
        ("[correlation]\noperation = ''", "correlation.operation", 2, "needs a field"),
        ("[correlation]\noperation = 'meta'", "correlation.operation", 2, "JSON pointer"),
        ("[correlation]\nheader = 'Host'", "correlation.header", 2, "Host, which is not a contract's"),
        ("[correlation]\nheader = 'X'\noperation = 'header:x'", "correlation.operation", 3, "something else already"),
        ("[correlation]\nheader = 'a b'", "correlation.header", 2, "not a header's name"),
        ("[read]\npurpose = 'refresh'", "read", 1, "is not for a write"),
        ("[idempotency]\nscope = 'account'", "idempotency", 1, "names none of `header`, `body_field`, `query`"),
        ("[idempotency]\nheader = 'K'\nquery = 'k'", "idempotency.query", 3, "stands beside `header`"),
        ("[idempotency]\nquery = 'k'\nquoted = true", "idempotency.quoted", 3, "for a key in a header"),
        ("[idempotency]\nheader = 'Authorization'", "idempotency.header", 2, "not a contract's to set"),
        ("[idempotency]\nheader = 'K'\ncompanions = ['header:K']", "idempotency.companions[0]", 3, "already"),
        ("[idempotency]\nheader = 'K'\ncompanions = ['K']", "idempotency.companions[0]", 3, '"header:NAME"'),
        ("[idempotency]\nheader = 'K'\ncompanions = 'header:K'", "idempotency.companions", 3, "not a list"),
        ("[idempotency]\nheader = 'K'\ncompanions = []", "idempotency.companions", 3, "empty list"),
        ("[idempotency]\nbody_field = ''", "idempotency.body_field", 2, "whole document"),
        ("[idempotency]\nheader = 'K'\nmax_length = 15", "idempotency.max_length", 3, "from 16 to 255"),
        ("[idempotency]\nheader = 'K'\nmax_length = true", "idempotency.max_length", 3, "whole number"),
        ("[idempotency]\nheader = 'K'\nretention = '24'", "idempotency.retention", 3, "not a duration"),
        ("[idempotency]\nheader = 'K'\nretention = '1s'", "idempotency.retention", 3, 'from "1m" to "400d"'),
        ("[idempotency]\nheader = 'K'\nretention = 5", "idempotency.retention", 3, "not a text"),
        ("[idempotency]\nheader = 'K'\nscope = 'world'", "idempotency.scope", 3, '"endpoint" or "account"'),
        ("[idempotency]\nheader = 'K'\nin_use = [{}]", "idempotency.in_use[0].status", 3, "is missing"),
        (
            "[idempotency]\nheader = 'K'\nin_use = [\n{ status = 409, equals = 1 }]",
            "idempotency.in_use[0].equals",
            4,
            "without a place",
        ),
        (
            "[idempotency]\nheader = 'K'\nin_use = [{ status = 409, pointer = '/a', header = 'B' }]",
            "idempotency.in_use[0]",
            3,
            "a pointer and a header",
        ),
        (
            "[idempotency]\nheader = 'K'\nin_use = [{ status = 409, header = 'B', equals = 0 }]",
            "idempotency.in_use[0].equals",
            3,
            "not a text",
        ),
        ("[verdict]\nrefused = [200]", "verdict.refused[0]", 2, "from 400 to 599"),
        ("[verdict]\nrefused = [503]\napplied = [409, 503]", "verdict.applied[1]", 3, "Keep one of them"),
        ("[verdict]\napplied = ['409']", "verdict.applied[0]", 2, "whole number"),
        ("[verdict]\nrate_limited = [403]", "verdict.rate_limited[0]", 2, "not a table"),
        ("[verdict]\nbody = [{ pointer = '/ok' }]", "verdict.body[0].outcome", 2, "is missing"),
        ("[[verdict.body]]\npointer = '/ok'\noutcome = 'ok'", "verdict.body[0].outcome", 3, "committed"),
        ("[verdict]\nexit = [{ status = 1 }]", "verdict.exit", 2, "is not for kind http"),
        ("[verdict]\nproxy_status = true", "verdict.proxy_status", 2, '"trusted"'),
        ("[answers]\non_connection_death = ' '", "answers.on_connection_death", 2, "1 to 160"),
        ('[answers]\non_connection_death = "a\\u202Eb"', "answers.on_connection_death", 2, "cannot be seen"),
        ("[job]\nstate = '/s'\nstates = { a = 'committed' }", "job", 1, "names none of `status_url`, `url`"),
        (
            "[job]\nstatus_url = '/u'\nurl = '/j/{result:/id}'\nstate = '/s'\nstates = { a = 'committed' }",
            "job.url",
            3,
            "stands beside `status_url`",
        ),
        ("[job]\nurl = 'https://a.b/{result:/id}'\n" + STATES, "job.url", 2, "begin with one slash"),
        ("[job]\nurl = '//a.b/{result:/id}'\n" + STATES, "job.url", 2, "begin with one slash"),
        ("[job]\nurl = '/jobs'\n" + STATES, "job.url", 2, "names nothing of the answer"),
        ("[job]\nurl = '/jobs/{result:/id}/{operation_id}'\n" + STATES, "job.url", 2, "not of the answer"),
        ("[job]\nurl = '/../{result:/id}'\n" + STATES, "job.url", 2, "climbs above its root"),
        ("[job]\nstatus_url = '/u'\nstate = '/s'\nstates = {}", "job.states", 4, "table with entries"),
        ("[job]\nstatus_url = '/u'\nstate = '/s'\nstates = { a = 'done' }", "job.states.a", 4, "committed"),
        (
            "[batch]\nby = 'key'\nitems = ''\nresults = ''\noutcome = { pointer = '', committed = [1] }",
            "batch",
            1,
            "`key`",
        ),
        ("[batch]\nby = 'position'\nitems = ''", "batch", 1, "names none of `results`, `successes`"),
        ("[batch]\nby = 'position'\nitems = ''\nresults = ''", "batch", 1, "has `results`, and no `outcome`"),
        (
            "[batch]\nby = 'key'\nkey = '/k'\nitems = ''\nsuccesses = '/s'",
            "batch",
            1,
            "has `successes`, and no `failures`",
        ),
        (
            "[batch]\nby = 'key'\nkey = '/k'\nitems = ''\nsuccesses = '/s'\nfailures = '/f'\n"
            "outcome = { pointer = '', committed = [1] }",
            "batch.outcome",
            7,
            "goes only with `results`",
        ),
        (
            "[batch]\nby = 'position'\nitems = ''\nsuccesses = '/s'\nfailures = '/f'",
            "batch.by",
            2,
            "stands in one of two lists",
        ),
        (
            "[batch]\nby = 'position'\nitems = ''\nresults = ''\nkey = ''\noutcome = { pointer = '', committed = [1] }",
            "batch.key",
            5,
            "Leave it out",
        ),
        (
            "[batch]\nby = 'position'\nitems = ''\nresults = ''\n"
            "outcome = { pointer = '', committed = [1, true], rejected = [1] }",
            "batch.outcome.rejected[0]",
            5,
            "stands in `committed` too",
        ),
        ("[reconcile]\nmethod = 'GET'", "reconcile.url", 1, "is missing"),
        ("[reconcile]\nmethod = 'PUT'\nurl = 'https://a.b/'", "reconcile.method", 2, '"GET" or "POST"'),
        ("[reconcile]\nurl = 'https://a.b/'\nbody = 'x'", "reconcile.body", 3, "only with POST"),
        ("[reconcile]\nurl = 'https://a.b/{operation}'", "reconcile.url", 2, "unknown placeholder {operation}"),
        ("[reconcile]\nurl = 'https://a.b/{result:id}'", "reconcile.url", 2, "unknown placeholder {result:id}"),
        ("[reconcile]\nurl = 'https://{operation_id}.b/'", "reconcile.url", 2, "in its host or port"),
        ("[reconcile]\nurl = 'v1/x'", "reconcile.url", 2, "not a URL"),
        ("[reconcile]\nurl = '//a.b/x'", "reconcile.url", 2, "begin with one slash"),
        ("[reconcile]\nurl = 'https://a.b/{path:1}'", "reconcile.url", 2, "unknown placeholder {path:1}"),
        ("[reconcile]\nurl = '/{path:0}'", "reconcile.url", 2, "unknown placeholder {path:0}"),
        ("[reconcile]\nurl = '/x?p={path}'", "reconcile.url", 2, "the whole path in its query"),
        ("[reconcile]\nmethod = 'POST'\nurl = '/x'\nbody = '{path:1}'", "reconcile.body", 4, "unknown placeholder"),
        ("[reconcile]\nurl = 'https://a.b/{idempotency_key}'", "reconcile.url", 2, "the contract has none"),
        (
            "[reconcile]\nurl = 'https://a.b/'\nwhere = { pointer = '/k', equals = '{idempotency_key}' }",
            "reconcile.where",
            3,
            "the contract has none",
        ),
        ("[reconcile]\nurl = 'https://a.b/'\ncommitted = ['x']", "reconcile.committed", 3, "Add `state`"),
        ("[reconcile]\nurl = 'https://a.b/'\nstate = '/s'", "reconcile.state", 3, "Add `committed`"),
        ("[reconcile]\nurl = 'https://a.b/'\neach = '/d'", "reconcile.each", 3, "Add `where`"),
        ("[reconcile]\nurl = 'https://a.b/'\nabsent = { means = 'rejected' }", "reconcile.absent", 3, "Add `after`"),
        (
            "[reconcile]\nurl = 'https://a.b/'\nabsent = { means = 'committed' }",
            "reconcile.absent.means",
            3,
            "rejected",
        ),
        (
            "[reconcile]\nurl = 'https://a.b/'\nstate = '/s'\ncommitted = ['x']\npending = ['x']",
            "reconcile.pending[0]",
            5,
            "Keep it in one list",
        ),
        (
            "[reconcile]\nurl = 'https://a.b/'\nstate = '/s'\ncommitted = [9007199254740992]",
            "reconcile.committed[0]",
            4,
            "2^53",
        ),
        ("[reconcile]\nurl = 'https://a.b/'\nstate = '/s'\ncommitted = [nan]", "reconcile.committed[0]", 4, "number"),
        ("[reconcile]\ncommand = 'x'\nurl = 'https://a.b/'", "reconcile.command", 2, "is not for kind http"),
        ("[deadlines]\nrequest = '99ms'", "deadlines.request", 2, '"100ms"'),
        ("[deadlines]\nrecovery = '31d'", "deadlines.recovery", 2, '"30d"'),
        ("[retry]\nattempts = 0", "retry.attempts", 2, "from 1 to 10"),
        ("[retry]\nsetup = 6", "retry.setup", 2, "from 1 to 5"),
        ("[retry]\nautomatic = true", "retry.automatic", 2, "a write that nothing binds"),
        ("idempotent = true\n[retry]\nautomatic = true\nattempts = 1", "retry.automatic", 3, "no repeat left"),
        ("[retry]\nautomatic = 'yes'", "retry.automatic", 2, "true or false"),
        ("[retry]\nafter = 'X-Reset'", "retry.after", 2, '"header:NAME"'),
        ("[retry]\nafter = 'header:X-Reset;days'", "retry.after", 2, "other than `epoch`"),
        ("[redirect]\nfollow = 6", "redirect.follow", 2, "from 0 to 5"),
        ("[result]\nexpected = '1MB'", "result.expected", 2, "not a size"),
        ("[result]\nexpected = '3GiB'", "result.expected", 2, "2GiB"),
        ("[approval]\nmode = 'sometimes'", "approval.mode", 2, '"passphrase"'),
        ("[approval]", "approval", 1, "empty section"),
    ],
)
def test_refused_below_the_effect(added: str, key: str, line: int, says: str) -> None:
    (problem,) = problems(HTTP_TOP + added)
    assert (problem.file, problem.key, problem.line) == ("example.toml", key, WRITE + line)
    assert says in f"{problem.message}. {problem.fix}"


@pytest.mark.parametrize(
    ("text", "key", "line", "says"),
    [
        (LEAST.replace('id = "example.least"\n', ""), "id", 1, "is missing"),
        (LEAST.replace("example.least", "Example"), "id", 1, "contract's id"),
        (LEAST.replace("example.least", "default.write"), "id", 1, "kept for what no contract covers"),
        (LEAST.replace("example.least", "a" * 129), "id", 1, "contract's id"),
        (LEAST.replace('id = "example.least"', "id = 5"), "id", 1, "not a text"),
        ('title = ""\n' + LEAST, "title", 1, "1 to 120"),
        ("title = '''a\nb'''\n" + LEAST, "title", 1, "cannot be seen"),
        ('checked = "2026-11-30"\n' + LEAST, "checked", 1, "without quotes"),
        ("checked = 2026-11-30T10:00:00Z\n" + LEAST, "checked", 1, "not a date"),
        ("id = 'x'\nmatch = 1\n[effect]\nkind = 'read'\n", "match", 2, "not a table"),
        (LEAST.replace('kind = "http"', 'kind = "ftp"'), "match.kind", 3, '"http" or "ssh"'),
        (LEAST.replace('kind = "http"\n', ""), "match.kind", 2, "is missing"),
        (LEAST.replace("https://api", "api"), "match.url", 4, "not a URL pattern: The pattern must be absolute"),
        (LEAST.replace("/payments", "/pay**"), "match.url", 4, "whole path segment"),
        (LEAST.replace("[effect]", 'method = ["get"]\n[effect]'), "match.method[0]", 5, "in capitals"),
        (LEAST.replace("[effect]", 'method = ["CONNECT"]\n[effect]'), "match.method[0]", 5, "that can be sent"),
        (LEAST.replace("[effect]", 'method = "GET"\n[effect]'), "match.method", 5, "not a list"),
        (LEAST.replace("[effect]", "method = []\n[effect]"), "match.method", 5, "empty list"),
        (LEAST.replace("[effect]", 'host = "web"\n[effect]'), "match.host", 5, "is not for kind http"),
        (LEAST.replace("[effect]", 'private = "no"\n[effect]'), "match.private", 5, "neither true nor false"),
        (LEAST.replace("[effect]", "where = [{ equals = 1 }]\n[effect]"), "match.where[0]", 5, "names none of"),
        (LEAST.replace("[effect]", "where = [{ query = 'a' }]\n[effect]"), "match.where[0].equals", 5, "is missing"),
        (
            LEAST.replace("[effect]", "where = [{ query = 'a', equals = 1 }]\n[effect]"),
            "match.where[0].equals",
            5,
            "Put it in quotes",
        ),
        (
            LEAST.replace("[effect]", "where = [\n{ query = 'a', header = 'b', equals = 'c' }]\n[effect]"),
            "match.where[0].header",
            6,
            "stands beside `query`",
        ),
        (LEAST.replace('"write"', '"delete"'), "effect.kind", 6, '"read" or "write"'),
        (LEAST + "[idempotency]\nheader = 'K'", "idempotency", 7, "Add `source`"),
        (READ + "[idempotency]\nheader = 'K'", "idempotency", 14, "is not for a read"),
        (READ.replace('kind = "read"', 'kind = "read"\nidempotent = false'), "effect.idempotent", 8, "changes nothing"),
        (READ.replace('"60s"', '"60"'), "read.consistency.eventual", 11, "not a duration"),
        (SSH.replace('"name"', '"if-match"'), "effect.idempotent", 9, "which SSH has not"),
        (SSH.replace('"marker"', '"close"'), "effect.completion", 10, '"exit_status" or "marker"'),
        (SSH.replace('"marker"', '"exit_status"'), "effect.marker", 11, "nothing looks for"),
        (SSH.replace('completion = "marker"\n', ""), "effect.marker", 10, "nothing looks for"),
        (SSH.replace("live {operation_id}", "live"), "effect.marker", 11, "does not hold {operation_id}"),
        (SSH.replace("live {", "{correlation_id} {"), "effect.marker", 11, "other than {operation_id}"),
        (SSH.replace("live {", "live\\n{"), "effect.marker", 11, "cannot be seen"),
        (SSH.replace("env:RELEASE_ID", "/op"), "correlation.operation", 13, 'Write "env:NAME"'),
        (SSH.replace("env:RELEASE_ID", "arg:op"), "correlation.operation", 13, "not a JSON pointer"),
        (SSH.replace("env:RELEASE_ID", "arg:--"), "correlation.operation", 13, "not a JSON pointer"),
        (SSH.replace("status = 3", "status = 75"), "verdict.exit[1]", 15, "75 again"),
        (SSH.replace("status = 3", "status = 256"), "verdict.exit[1].status", 15, "from 0 to 255"),
        (SSH.replace('host = "web-*"', 'host = ""'), "match.host", 5, "not a host"),
        (SSH.replace('command = "releasectl deploy *"', 'command = "\\u0000"'), "match.command", 6, "not a command"),
        (SSH.replace('"releasectl status', '"\\u0000'), "reconcile.command", 17, "holds a NUL"),
        (SSH.replace("releasectl status {operation_id}", "git ls-remote"), "reconcile.command", 17, "git-receive-pack"),
        (
            SSH.replace("releasectl status {operation_id}", "git ls-remote").replace("releasectl", "git-receive-pack"),
            "reconcile.state",
            18,
            "is read as refs",
        ),
        (SSH + "[redirect]\nfollow = 1", "redirect", 21, "is not for kind ssh"),
        (
            SSH.replace('"write"', '"read"').split("idempotent")[0] + '[read]\nconsistency = "header:ETag"',
            "read.consistency",
            10,
            "which SSH has not",
        ),
    ],
)
def test_refused(text: str, key: str, line: int, says: str) -> None:
    first = problems(text)[0]
    assert (first.key, first.line) == (key, line)
    assert says in f"{first.message}. {first.fix}"


def test_every_problem_is_told_at_once_in_the_order_of_lines() -> None:
    found = problems('id = 5\n[match]\nkind = "http"\nurl = 1\n[effect]\nkind = "x"\nfoo = 1\n')
    assert [(problem.line, problem.key) for problem in found] == [
        (1, "id"),
        (4, "match.url"),
        (6, "effect.kind"),
        (7, "effect.foo"),
    ]
    with pytest.raises(ContractRefused, match=r"example.toml:4: `match.url` is not a text. Write a pattern"):
        contract('id = 5\n[match]\nkind = "http"\nurl = 1\n[effect]\nkind = "x"\nfoo = 1\n')


def test_a_key_contract_needs_its_source_and_date() -> None:
    both = problems(LEAST + "[idempotency]\nheader = 'K'")
    assert ["`source`" in both[0].fix, "`checked`" in both[1].fix] == [True, True]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('id = "a\n', 1, "This is not TOML (column 8)"),
        ("a = 1\na = 2\n", 2, "This is not TOML"),
        ("[match\n", 1, "This is not TOML"),
        ("a = 1\n\na = ", 3, "This is not TOML"),
        ("a = " + "[" * 10_000, 1, "nested too deeply"),
        ("#" * (MAX_FILE + 1), 1, "longer than 64 KiB"),
    ],
)
def test_not_a_file_of_ours(text: str, line: int, says: str) -> None:
    (problem,) = problems(text)
    assert (problem.line, problem.key) == (line, "")
    assert says in problem.message


def test_a_file_up_to_the_limit() -> None:
    assert contract(LEAST + "#" * (MAX_FILE - len(LEAST))).id == "example.least"


@given(st.dictionaries(st.sampled_from(["id", "match", "effect", "verdict", "x"]), st.integers() | st.text()))
def test_any_toml_is_a_contract_or_refused(content: dict[str, object]) -> None:
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in content.items() if json.dumps(value).isascii())
    with pytest.raises(ContractRefused):
        contract(text)


# The manual's table and the grammar are one.


def _rows(kind: Type, prefix: str) -> list[str]:
    match kind:
        case ListOf(item=item):
            return _rows(item, prefix)
        case Either(table=table):
            return _rows(table, prefix)
        case TableOf(keys=keys):
            return [row for key in keys for row in (prefix + key.name, *_rows(key.type, f"{prefix}{key.name}."))]
        case _:
            return []


_SIGNS = ("idempotency.in_use.", "verdict.applied.", "verdict.rate_limited.")


def test_the_manual_has_every_key_and_no_other() -> None:
    rows = [row for row in _rows(GRAMMAR, "") if not row.startswith(_SIGNS)]
    table = DOCS.read_text().split("## Keys")[1].split("## ")[0]
    named = [line.split("|")[1].strip(" `[]") for line in table.splitlines() if line.startswith("| `")]
    assert named == rows


def _keys(kind: Type) -> list[Key]:
    match kind:
        case ListOf(item=item):
            return _keys(item)
        case Either(table=table):
            return _keys(table)
        case TableOf(keys=keys):
            return [inner for key in keys for inner in (key, *_keys(key.type))]
        case _:
            return []


def test_a_needed_key_has_no_default() -> None:
    assert [key.name for key in _keys(GRAMMAR) if key.needed and key.default is not None] == []
