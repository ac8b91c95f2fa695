"""Exit statuses: promises of interface, section 2."""

from __future__ import annotations

from collections.abc import Mapping

from affidavit.ipc.verdict import facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


DONE = 0
REFUSED = 1
USAGE = 2
NOT_REACHABLE = 3
NOT_OPEN = 4
"""Wrong passphrase, or the vault is locked."""
COMMITTED_OTHER = 9
NOT_ATTEMPTED = 10
REJECTED = 11
UNKNOWN = 12
IN_DELIVERY = 13
PENDING = 14

NO_STATUS = 255
"""`affidavit ssh` where the command has no exit status to pass on, as with ssh."""

ACTION_HELP = """\
exit status:
  0   committed: status 2xx or exit 0, or settled otherwise
  9   committed with another or a cut result
  10  not attempted: nothing was sent
  11  rejected
  12  unknown: it was sent, and no complete answer decides
  13  committed or rejected, but the result did not arrive
  14  pending: not finished, do not send it again
  2   wrong usage
  3   the broker is not reachable"""

SSH_HELP = """\
exit status:
  that of the command, as with ssh
  255 it has none, or its output did not arrive whole: the envelope on stderr says what is known; or the broker
      ended under it
  2   wrong usage
  3   the broker is not reachable: nothing was asked for"""

HELP = """\
exit status:
  0   done
  1   refused, or the check found something
  2   wrong usage
  3   the broker is not reachable
  4   wrong passphrase, or the vault is locked"""

CHECK_HELP = """\
exit status:
  0   every check held
  1   a check did not hold
  2   wrong usage"""


def of_envelope(envelope: Mapping[str, Any]) -> int:
    """The exit status that says what an envelope says."""
    if envelope.get("pending") is not None:
        return PENDING
    said = facts(envelope)
    outcome = said["outcome"]
    if outcome == "not_attempted":
        return NOT_ATTEMPTED
    if outcome == "unknown":
        return UNKNOWN
    if said["phase"] == "result_delivery":
        return IN_DELIVERY
    if outcome == "rejected":
        return REJECTED
    plain = _settled_otherwise(envelope) or _plain_success(envelope.get("http")) or _plain_end(envelope.get("ssh"))
    return DONE if plain else COMMITTED_OTHER


def _settled_otherwise(envelope: Mapping[str, Any]) -> bool:
    """By a look-up or an attestation. Its `settled` may be sealed; the source of what is known is not."""
    return (envelope.get("evidence") or {}).get("source") in ("remote_query", "operator_attested")


def _plain_success(http: Mapping[str, Any] | None) -> bool:
    """A 2xx whose body is here whole."""
    if http is None or not 200 <= http["status"] <= 299:
        return False
    return _whole(http.get("body"))


def _plain_end(ssh: Mapping[str, Any] | None) -> bool:
    """Exit status 0, or none where the contract's marker decided, and both outputs are here whole."""
    if ssh is None or ssh["exit_status"] not in (0, None) or ssh["exit_signal"] is not None:
        return False
    return _whole(ssh["stdout"]) and _whole(ssh["stderr"])


def _whole(body: Mapping[str, Any] | None) -> bool:
    return body is None or (bool(body.get("complete", True)) and body.get("truncated_at") is None)
