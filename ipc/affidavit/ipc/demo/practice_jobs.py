"""The practice service's asynchronous route: a `POST` is accepted as a job, whose status is polled until it has ended.

`POST /v1/jobs` takes a JSON object, each field optional:

- `polls`: how many polls are answered `running` before the job ends (1).
- `ends`: `succeeded`, `failed`, `gone` (404 from then on) or `never`.
- `poll_errors`: how many polls are answered 503 before all that (0).
- `accepted_with`: 200, 201 or 202.
- `named_in`: `body` (`id` and `status_url`), `header` (`Location`, relative) or `nowhere`.
- `reference`, `metadata`, `practice`, as in a payment.

The acceptance is the effect. `GET /v1/jobs/ID` is the status resource: `{"id", "state", ...}`, state `running`,
`succeeded` or `failed`. `GET /v1/jobs?ref=R` lists without a poll's being counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from affidavit.ipc.demo.practice_exchange import (
    Did,
    Reply,
    Request,
    answered,
    asked,
    listed,
    mode_of,
    named,
    problem,
)

PREFIX = "/v1/jobs"
_ENDS = ("succeeded", "failed", "gone", "never")
_NAMED_IN = ("body", "header", "nowhere")
_ACCEPTED_WITH = (200, 201, 202)
_MOST = 1000
"""Polls that a job can be asked to take."""


@dataclass(slots=True)
class Job:
    """One job; each poll brings it nearer to its end."""

    row: dict[str, Any]
    polls_left: int
    errors_left: int
    ends: str

    def polled(self) -> Reply:
        """Answer one poll."""
        if self.errors_left:
            self.errors_left -= 1
            return problem(503, "unavailable", "The status cannot be told right now.")
        if self.polls_left or self.ends == "never":
            self.polls_left = max(0, self.polls_left - 1)
            return Reply(Did.READ, 200, dict(self.row))
        if self.ends == "gone":
            return problem(404, "not_found", "This job is gone.")
        self.row["state"] = self.ends
        return Reply(Did.READ, 200, dict(self.row))


@dataclass(slots=True)
class Jobs:
    """Every job that was accepted, by id. Its caller holds the lock."""

    jobs: dict[str, Job] = field(default_factory=dict)

    def answer(self, request: Request) -> Reply:
        """Decide on a request under PREFIX."""
        job_id = request.path.removeprefix(PREFIX).removeprefix("/")
        match request.method, job_id:
            case "GET" | "HEAD", "":
                rows = [job.row for job in self.jobs.values()]
                return Reply(Did.READ, 200, {"data": listed(rows, request.query)})
            case "GET" | "HEAD", _ if job_id in self.jobs:
                return self.jobs[job_id].polled()
            case "POST", "":
                return self.accept(request)
            case _, _ if job_id in ("", *self.jobs):
                return problem(405, "method_not_allowed", "This path does not take this method.")
            case _:
                return problem(404, "not_found", "There is no such job.")

    def accept(self, request: Request) -> Reply:
        body = asked(request)
        if isinstance(body, Reply):
            return body
        polls, errors = _count(body, "polls", 1), _count(body, "poll_errors", 0)
        ends, named_in = body.get("ends", "succeeded"), body.get("named_in", "body")
        status = body.get("accepted_with", 202)
        if polls is None or errors is None:
            return problem(422, "invalid_polls", f"polls and poll_errors must be whole numbers from 0 to {_MOST}.")
        if ends not in _ENDS or named_in not in _NAMED_IN or status not in _ACCEPTED_WITH or isinstance(status, bool):
            return problem(422, "invalid_job", "ends, named_in or accepted_with is none of the words for it.")
        mode = mode_of(body)
        if isinstance(mode, Reply):
            return mode
        job_id = f"job_{len(self.jobs) + 1}"
        row = {"id": job_id, **named(body), "state": "running"}
        self.jobs[job_id] = Job(row, polls, errors, ends)
        at = f"{PREFIX}/{job_id}"
        told: dict[str, Any] = {"accepted": True}
        if named_in == "body":
            told |= {"id": job_id, "status_url": f"http://{request.headers.get('host', '127.0.0.1')}{at}"}
        headers = (("Location", at),) if named_in == "header" else ()
        return answered(Reply(Did.APPLIED, status, told, mode, job_id, headers=headers), body)


def _count(body: Mapping[str, Any], name: str, default: int) -> int | None:
    value = body.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None
