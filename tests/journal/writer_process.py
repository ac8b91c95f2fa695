"""A process that appends to a journal and says what was acknowledged; tests kill it, or take its disk away.

Arguments: path, key (hex), how many barriers, and optionally the most bytes that a file may have.
"""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path

from affidavit.journal import ActionRow, Draft, Journal, JournalPoisoned


def main() -> int:
    path, key, count, *limit = sys.argv[1:]
    journal = Journal.open(Path(path), bytes.fromhex(key))
    if limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit[0]), int(limit[0])))
    for n in range(int(count)):
        row = ActionRow(invocation_id=f"act_{n}", operation_id=f"op_{n}", state="open")
        lazy = journal.append([Draft("ACTION_ACCEPTED", row.invocation_id, {"n": n}, n)])
        barrier = journal.append(
            [Draft("DISPATCH_STARTED", row.invocation_id, {"n": n, "text": "x" * 900}, n)],
            lambda seqs, row=row: [row],
            barrier=True,
        )
        try:
            barrier.wait(30)
        except JournalPoisoned as error:
            print("poisoned", error, flush=True)
            return 1
        print(*lazy.seqs, *barrier.seqs, flush=True)
    journal.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
