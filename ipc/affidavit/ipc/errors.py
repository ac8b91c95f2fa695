"""What an exception of the broker becomes on a socket: one table, so that no call answers in its own way."""

from __future__ import annotations

import logging
import traceback

from affidavit.broker.api import ActionError, BadParam, NotWhileLocked, OperatorRefused
from affidavit.ipc import jsonrpc
from affidavit.ipc.jsonrpc import Failure, Id

_log = logging.getLogger(__name__)


def failure(id_: Id, error: Exception) -> Failure:
    """The answer to a call that raised. An exception that nobody foresaw is logged by type and place alone: its text,
    like the frames' variables, may hold what was sent."""
    match error:
        case ActionError():
            facts = error.facts
            return Failure(jsonrpc.ACTION_FAILED, str(facts.get("message") or facts["code"]), id_, error.envelope)
        case BadParam():
            return Failure(jsonrpc.INVALID_PARAMS, error.message, id_, {"field": error.field})
        case NotWhileLocked():
            return Failure(jsonrpc.NOT_WHILE_LOCKED, "The vault is locked.", id_, {"needs": error.needs})
        case OperatorRefused():
            data = {"code": error.code, "field": error.field, "remedy": error.remedy}
            return Failure(jsonrpc.OPERATOR_REFUSED, error.message, id_, data)
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
    _log.error("A call failed with %s at %s.", type(error).__name__, place)
    return Failure(
        jsonrpc.INTERNAL_ERROR,
        "The broker failed on this call.",
        id_,
        {"remedy": "Ask action.get what the records say before you send it again."},
    )
