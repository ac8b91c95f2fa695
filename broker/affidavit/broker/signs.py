"""What a contract reads from a complete answer beyond its status: signs, body verdicts, the reference of a job.

Applied after the status table, and only as it allows: between `committed` and `rejected`, or to `unknown` (verdicts,
section 3). What a contract reads from a body that cannot be read decides nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any
from urllib.parse import urljoin

from affidavit.broker.contract.model import RESULT_NAME, Contract, Job, Place, PlaceKind, Sign
from affidavit.broker.contract.pointer import MISSING, NotJson, find, load_json, same
from affidavit.broker.events import JobReference
from affidavit.broker.outcome import (
    Meaning,
    Verdict,
    job_accepted,
    key_in_use_verdict,
    rate_limited_verdict,
    said_verdict,
    unread_verdict,
)
from affidavit.broker.target import HttpTarget
from affidavit.broker.terms import Outcome

READ_MAX = 1024 * 1024
"""Bytes of an answer that a contract may be read from; a longer one is kept, and counts as not readable."""
JOB_ID_MAX = 256
URL_MAX = 8 * 1024


class Unreadable(Enum):
    """The body could not be read: its coding does not decode, or it is longer than what is read."""

    BODY = "body"


UNREADABLE = Unreadable.BODY


class Answer:
    """A complete answer as a contract reads it. `body` is decoded and redacted; None where it is not readable."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes | None) -> None:
        """`headers`: lower-case names, repeats joined."""
        self.status = status
        self.headers = headers
        self.body = body
        self._document: Any = None
        self._parsed = False

    @property
    def document(self) -> Any:
        """The body as JSON, MISSING where it is none, or UNREADABLE."""
        if self.body is None:
            return UNREADABLE
        if not self._parsed:
            self._parsed = True
            try:
                self._document = load_json(self.body)
            except NotJson:
                self._document = MISSING
        return self._document

    def at(self, place: Place) -> Any:
        """The value at a place, MISSING, or UNREADABLE."""
        if place.kind is PlaceKind.HEADER:
            return self.headers.get(place.name.lower(), MISSING)
        return self.pointed(place.name)

    def pointed(self, pointer: str) -> Any:
        document = self.document
        return document if document is UNREADABLE or document is MISSING else find(document, pointer)


def judged(verdict: Verdict, answer: Answer, contract: Contract, meaning: Meaning) -> Verdict:
    """The status table's verdict, moved by what the contract reads from the answer."""
    if verdict.outcome not in (Outcome.COMMITTED, Outcome.REJECTED):
        return verdict
    in_use = contract.idempotency.in_use if contract.idempotency is not None and meaning.keyed else ()
    for signs, row in ((in_use, key_in_use_verdict), (contract.verdict.rate_limited, rate_limited_verdict)):
        held = _any_holds(signs, answer)
        if held is not False:
            return unread_verdict(meaning) if held is UNREADABLE else row(answer.status, meaning)
    applied = _any_holds(contract.verdict.applied, answer)
    if applied is UNREADABLE:
        return unread_verdict(meaning)
    if applied:
        verdict = said_verdict(verdict, Outcome.COMMITTED, meaning)
    else:
        verdict = _by_body(verdict, answer, contract, meaning)
    if verdict.outcome is Outcome.COMMITTED and contract.job is not None and _accepts(contract.job, answer):
        return job_accepted(verdict)
    return verdict


def reads_body(contract: Contract) -> bool:
    """Whether anything of this contract stands in an answer's body."""
    verdict, idempotency, read = contract.verdict, contract.idempotency, contract.read
    signs = (*verdict.applied, *verdict.rate_limited, *(idempotency.in_use if idempotency else ()))
    consistency = read.consistency if read is not None else None
    return (
        bool(verdict.body)
        or any(sign.at is not None and sign.at.kind is PlaceKind.POINTER for sign in signs)
        or contract.job is not None
        or contract.batch is not None
        or (isinstance(consistency, Place) and consistency.kind is PlaceKind.POINTER)
    )


def job_reference(job: Job, answer: Answer, asked: HttpTarget) -> JobReference | None:
    """What a 2xx answer says of the job that it accepted; None where it names none (R7).

    Where the contract names a pointer, only the id that stands there makes a reference, also in a 202; where it names
    none, a 202 alone does. `asked` is the request's, against which a relative status URL is read (RFC 3986, 5).
    """
    if not _accepts(job, answer):
        return None
    job_id, url = _job_id(job, answer), _status_url(job, answer, asked)
    return JobReference(job_id, url) if job_id is not None or url is not None else None


def _accepts(job: Job, answer: Answer) -> bool:
    if job.pointer is None:
        return answer.status == 202
    return answer.status // 100 == 2 and _job_id(job, answer) is not None


def _job_id(job: Job, answer: Answer) -> str | None:
    return _text(answer.pointed(job.pointer), JOB_ID_MAX) if job.pointer is not None else None


def _status_url(job: Job, answer: Answer, asked: HttpTarget) -> str | None:
    if job.url is not None:
        pointers = {name: name.removeprefix(RESULT_NAME) for name in job.url.names if name.startswith(RESULT_NAME)}
        found = {name: _text(answer.pointed(pointer), JOB_ID_MAX) for name, pointer in pointers.items()}
        return job.url.fill_url({name: value for name, value in found.items() if value is not None}, asked)
    assert job.status_url is not None, "one of them is there"
    url = _text(answer.at(job.status_url), URL_MAX)
    try:
        return urljoin(asked.url, url) if url is not None else None
    except ValueError:
        return url


def _text(value: Any, most: int) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and 0 < len(value) <= most else None


def _any_holds(signs: Iterable[Sign], answer: Answer) -> bool | Unreadable:
    """Whether one of the signs holds. UNREADABLE where none does and one may."""
    found: bool | Unreadable = False
    for sign in signs:
        if sign.status != answer.status:
            continue
        value = answer.at(sign.at) if sign.at is not None else True
        if value is UNREADABLE:
            found = UNREADABLE
        elif sign.at is None or _fits(value, sign.equals):
            return True
    return found


def _fits(value: Any, equals: Any) -> bool:
    """Whether a value is the one meant; without one, whether it is there and not null."""
    if value is MISSING or value is None:
        return False
    return equals is None or same(value, equals)


def _by_body(verdict: Verdict, answer: Answer, contract: Contract, meaning: Meaning) -> Verdict:
    for rule in contract.verdict.body:
        value = answer.pointed(rule.pointer)
        if value is UNREADABLE:
            return unread_verdict(meaning)
        if _fits(value, rule.equals):
            return said_verdict(verdict, rule.outcome, meaning)
    if contract.verdict.body and answer.status // 100 == 2 and answer.body and answer.document is MISSING:
        return unread_verdict(meaning)
    return verdict
