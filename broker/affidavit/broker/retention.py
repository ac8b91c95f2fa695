"""Retention: results whose time is over are deleted; status and hash stay (interface, section 7).

Every stored body, a blob or a file, has an entry in the journal's index of blobs, named for its invocation. Invocation
ids sort by time, so the entries of what may be over are found without a look at anything newer, and what is deleted is
out of the index: a pass costs what it deletes, and a look at those that are old and not over yet.

RESULT_EXPIRED is durable before anything is deleted: a crash in between leaves a body that the next pass deletes,
never a record that promises one. It names hash and status, which are sealed, so nothing is deleted while the vault is
locked. A body whose invocation is unknown is evidence to settle it with, and stays until that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from affidavit.broker import events as ev
from affidavit.broker.limits import Limits
from affidavit.broker.moment import Clock, after, first_invocation_id
from affidavit.broker.projection import Projection
from affidavit.broker.results import Results
from affidavit.broker.terms import InvocationId, Micros, State
from affidavit.journal import Journal, JournalPoisoned

PAGE = 16
"""Entries looked at before what was found over is made durable and deleted."""

DAY_S = 86_400.0


class Retention:
    """Deletes what is over. Owned by the loop; one `clean` at a time."""

    def __init__(
        self, projection: Projection, journal: Journal, results: Results, limits: Callable[[], Limits], clock: Clock
    ) -> None:
        self._projection = projection
        self._journal = journal
        self._results = results
        self._limits = limits
        self._clock = clock

    async def clean(self) -> int:
        """Delete all that is over now; how many bodies. While the vault is locked: none."""
        before = after(self._clock.wall(), -self._limits().result_days * DAY_S)
        cursor, deleted = first_invocation_id(Micros(0)), 0
        try:
            while self._projection.opener is not None:
                names = self._projection.reader.blob_ids(cursor, first_invocation_id(before), PAGE)
                if not names:
                    break
                cursor = names[-1] + "\0"
                over = [name for name in names if self._is_over(_invocation_id(name), before)]
                await self._delete(over)
                deleted += len(over)
        except JournalPoisoned:
            pass
        return deleted

    async def remove_orphans(self, names: Sequence[str]) -> None:
        """Delete those files, there since before this run, that no record names: a crash came before its commit."""
        orphans = await self._results.in_thread(lambda: [n for n in names if not self._is_indexed(n)])
        for name in orphans:
            await self._results.delete(name)

    def _is_over(self, invocation_id: InvocationId, before: Micros) -> bool:
        """By the clear columns alone: settled, and that long enough ago."""
        view = self._projection.reader.action(invocation_id)
        settled_at = view.settled_at if view is not None and view.state == State.SETTLED else None
        return settled_at is not None and settled_at < before

    def _is_indexed(self, name: str) -> bool:
        return bool(self._projection.reader.blob_ids(name, name + "\0", 1))

    async def _delete(self, names: list[str]) -> None:
        for invocation_id in dict.fromkeys(map(_invocation_id, names)):
            inv = self._projection.get(invocation_id)
            if inv is not None and not inv.expired:
                self._projection.record(invocation_id, ev.ResultExpired(inv.response_sha256, inv.status))
        if not names:
            return
        await self._projection.flush().durable()
        for name in names:
            await self._results.delete(name)
            self._journal.delete_blob(name)


def _invocation_id(name: str) -> InvocationId:
    return InvocationId(name.partition(".")[0])
