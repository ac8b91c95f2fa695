"""The practice service's batches: one request, an effect and a result for each item.

`POST /v1/batches` answers with a result for each item by its `id`, `POST /v1/batches/positional` with one at each
item's position. The body:

- `items`: at most 1000 objects with `id` (not positional), `amount`, and `want`: `created`; `busy`, which is not done
  and may be asked for again; `silent`, which is done and gets no result (positional: nor does any item after it).
  An `amount` that is none is `invalid`.
- `reversed`: true gives the results in the opposite order (not positional).
- `atomic`: true makes all of it or nothing; then each item's status is `created` or `rolled_back`.
- `practice`: how the whole is answered, as in a payment.

The answer is `{"results": [{"id", "status", "object"}]}`, `object` the id of what was made or null.
`GET /v1/batches?ref=R` lists what was made, by the item's id as its reference.
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
    is_amount,
    listed,
    mode_of,
    problem,
)

PREFIX = "/v1/batches"
_WANTS = ("created", "busy", "silent")
_MOST = 1000


@dataclass(slots=True)
class Batches:
    """What batches made. Its caller holds the lock."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, request: Request) -> Reply:
        """Decide on a request under PREFIX."""
        route = request.path.removeprefix(PREFIX)
        match request.method, route:
            case "GET" | "HEAD", "":
                return Reply(Did.READ, 200, {"data": listed(self.rows, request.query)})
            case "POST", "" | "/positional":
                return self.apply(request, by_key=not route)
            case _, "" | "/positional":
                return problem(405, "method_not_allowed", "This path does not take this method.")
            case _:
                return problem(404, "not_found", "There is nothing at this path.")

    def apply(self, request: Request, *, by_key: bool) -> Reply:
        body = asked(request)
        if isinstance(body, Reply):
            return body
        items = body.get("items")
        if not isinstance(items, list) or not 0 < len(items) <= _MOST:
            return problem(422, "invalid_items", f"The field items must be a list of 1 to {_MOST} objects.")
        if not all(_is_item(item, by_key=by_key) for item in items):
            return problem(422, "invalid_items", "An item is no object, lacks its id, or wants what there is not.")
        mode = mode_of(body)
        if isinstance(mode, Reply):
            return mode
        statuses = [_status(item) for item in items]
        if body.get("atomic") is True and set(statuses) != {"created"}:
            statuses = ["rolled_back"] * len(items)
        made = [self._make(item) if status == "created" else None for item, status in zip(items, statuses, strict=True)]
        results = [
            {**({"id": item["id"]} if by_key else {}), "status": status, "object": object_id}
            for item, status, object_id in zip(items, statuses, made, strict=True)
        ]
        told = _told(items, results, by_key=by_key, in_reverse=body.get("reversed") is True)
        effects = tuple(object_id for object_id in made if object_id is not None)
        did = Did.APPLIED if effects else Did.REFUSED
        return answered(Reply(did, 200, {"results": told}, mode, effects=effects), body)

    def _make(self, item: Mapping[str, Any]) -> str:
        row = {
            "id": f"item_{len(self.rows) + 1}",
            "amount": item["amount"],
            "reference": item.get("id"),
            "metadata": {},
            "status": "succeeded",
        }
        self.rows.append(row)
        return str(row["id"])


def _is_item(item: Any, *, by_key: bool) -> bool:
    if not isinstance(item, dict) or item.get("want", "created") not in _WANTS:
        return False
    return not by_key or isinstance(item.get("id"), str)


def _status(item: Mapping[str, Any]) -> str:
    if item.get("want") == "busy":
        return "busy"
    return "created" if is_amount(item.get("amount")) else "invalid"


def _told(
    items: list[Mapping[str, Any]], results: list[dict[str, Any]], *, by_key: bool, in_reverse: bool
) -> list[dict[str, Any]]:
    """The results that are given. By position they end where one is missing, so that no later one takes its place."""
    silent = [item.get("want") == "silent" for item in items]
    if not by_key:
        return results[: silent.index(True)] if True in silent else results
    told = [result for result, quiet in zip(results, silent, strict=True) if not quiet]
    return told[::-1] if in_reverse else told
