"""Named points at which a test may have this very process killed.

`AFFIDAVIT_FAULTPOINT="before:DISPATCH_STARTED@2"` in the environment kills the process by SIGKILL when that point is
reached for the second time (`@1` may be left out). Nothing else can be done with it, and unset it costs one comparison.
"""

from __future__ import annotations

import os
import signal
import threading

_name, _, _count = os.environ.get("AFFIDAVIT_FAULTPOINT", "").partition("@")
_left = int(_count) if _count.isdecimal() else 1
_lock = threading.Lock()

ARMED = bool(_name)


def reach(name: str) -> None:
    """Die here if `name` is the armed point and its turn has come."""
    global _left
    if not ARMED or name != _name:
        return
    with _lock:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()  # the signal is for the process; this thread goes no further
