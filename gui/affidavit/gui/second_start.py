"""A second start raises the first: it asks the operator socket of the home and goes."""

from __future__ import annotations

from collections.abc import Mapping

from affidavit.ipc.client import Client, ClientError

_ANSWER_S = 5.0


def raise_running(environ: Mapping[str, str]) -> bool | None:
    """Ask the running one to show its window: True, or False where it has none; None where nobody answers."""
    try:
        with Client.operator(environ, timeout_s=_ANSWER_S) as client:
            return bool(client.call("app.raise")["raised"])
    except ClientError:
        return None
