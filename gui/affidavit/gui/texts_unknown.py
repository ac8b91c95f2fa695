"""The sentences of the unknown window, the tray and the main window (design, section 5).

Whole sentences with placeholders in braces; a count picks one of two forms with `counted`.
"""

from __future__ import annotations

from affidavit.broker.terms import Outcome, Phase
from affidavit.gui.figures import count

APP = "Affidavit"


def counted(n: int, one: str, many: str, /, **parts: object) -> str:
    """The form of a sentence for this count, filled in; `{n}` is the count itself."""
    return (one if n == 1 else many).format(n=count(n), **parts)


PHASES = {
    Phase.VALIDATION: "Validation",
    Phase.CREDENTIAL_INJECTION: "Credential injection",
    Phase.CONNECTION_SETUP: "Connection set-up",
    Phase.REMOTE_EXECUTION: "Remote execution",
    Phase.RESULT_DELIVERY: "Result delivery",
}
# --- Unknown outcomes: the list ------------------------------------------------------------------------------------

UNKNOWN_TITLE = "Unknown outcomes"
UNKNOWN_ORDER = "Past their deadline first"
UNKNOWN_EMPTY = "No unknown outcomes. Everything sent so far has a recorded answer."
UNKNOWN_EMPTY_NEXT = "If an answer is lost, the action stands here with its evidence until it is settled."
UNKNOWN_WAITING = "The journal is being read."

TITLE_HTTP = "{method} to {host}"
TITLE_SSH = "Command on {host}"
TITLE_SEALED = "Action {invocation}"
PLACE_SEALED = "the vault is locked"

ROW_AGE = "{age} old"
ROW_AGE_NONE = "age not known"
ROW_DEADLINE = "deadline {deadline}"
ROW_DEADLINE_WAS = "deadline was {deadline}"
ROW_DEADLINE_NONE = "no deadline"
ROW_NO_QUERY = "No status query: needs you"
ROW_QUERY = "The target can be asked"
ROW_SEALED = "Unlock to see what it was"
ROW_ITEMS = "{n} of {total} items unknown"
ROW_ACCESSIBLE = "{title}, at {place}. Outcome unknown. {age}, {deadline}. {note}."

# --- Unknown outcomes: one action ----------------------------------------------------------------------------------

BYLINE_OPERATION = "operation {operation}"
BYLINE_ATTEMPT = "attempt {n} of {total}"
BYLINE_ATTEMPT_ONLY = "attempt {n}"
BYLINE_ASKED = "asked by {agent}"
BYLINE_ITEMS = ("one item", "{n} items")

AGE_SENT = "{age} since it was sent"
AGE_SENT_NONE = "When it was sent is not known"
AGE_STOPS_KEY = "recovery stops in {left}; the key stays valid for {key}"
AGE_STOPS_KEY_OVER = "recovery stops in {left}; the key is no longer valid"
AGE_STOPS = "recovery stops in {left}; no key binds a repeat"
AGE_STOPPED_KEY = "recovery stopped {ago} ago; the key stays valid for {key}"
AGE_STOPPED_KEY_OVER = "recovery stopped {ago} ago; the key is no longer valid"
AGE_STOPPED = "recovery stopped {ago} ago; no key binds a repeat"
AGE_NO_DEADLINE = "no recovery deadline is recorded"
AGE_ACCESSIBLE = "Age: {left}. {right}."

PROVEN = "What is proven"
NOT_PROVEN = "What is not proven"

PROVEN_SENT = (
    "The one byte of the request was handed to the connection with {peer} at {at}. Record {record} says so.",
    "All {n} bytes of the request were handed to the connection with {peer} at {at}. Record {record} says so.",
)
PROVEN_SENT_WHOLE = "The whole request was handed to the connection with {peer} at {at}. Record {record} says so."
PROVEN_DISPATCHED = "Dispatch to {peer} started at {at}. Record {record} says so."
PROVEN_STARTED = (
    "The request went to {peer}, and an answer with status {status} began at {at}. Record {record} says so."
)
PROVEN_STARTED_PLAIN = "The request went to {peer}, and an answer began at {at}. Record {record} says so."
PROVEN_COMPLETE = "A complete answer with status {status} came from {peer} at {at}. Record {record} holds it."
PROVEN_COMPLETE_PLAIN = "A complete answer came from {peer} at {at}. Record {record} holds it."
PROVEN_UNNAMED = "The dispatch is recorded. Record {record} says so."
PROVEN_NOTHING = "No record of the dispatch can be read."
PEER_UNNAMED = "the target"
AT_UNNAMED = "a time that is not known"

PROVEN_ITEMS = "Of {total} items {committed} are committed and {rejected} rejected. Record {record} holds the answer."
NOT_PROVEN_ITEMS = (
    "What became of the item {keys}. No record decides it.",
    "What became of {n} items: {keys}. No record decides it.",
)
NOT_PROVEN_ITEMS_MORE = "What became of {n} items: {keys} and {more} more. No record decides it."
NOT_PROVEN_WHETHER = "Whether “{title}” happened. {why}"
NOT_PROVEN_SEALED = "Whether it happened. {why}"

WHY_NO_ANSWER = "The connection closed before any answer was recorded."
WHY_NOT_WHOLE = "The target answered before the request was whole; that proves nothing about the rest."
WHY_CUT = "No complete answer was recorded."
WHY_BEFORE = "An answer was there before the request; it answers nothing."
WHY_DEADLINE = "No answer came by {at}. It may still be running."
WHY_DEADLINE_PLAIN = "No answer came within the deadline. It may still be running."
WHY_INCOMPLETE = "The answer broke off and does not count."
WHY_GATEWAY = "A gateway answered {status}; that says nothing about the target."
WHY_GATEWAY_PLAIN = "A gateway answered; that says nothing about the target."
WHY_CANCELLED = "The caller cancelled after it was sent. That does not undo it."
WHY_CALLER_ENDED = "The caller ended after it was sent. That does not undo it."
WHY_RESTARTED = "Affidavit stopped before an answer was recorded."
WHY_KEY_IN_USE = "The target says the key is in use. That speaks about the repeat, not about the first attempt."
WHY_STORAGE = "An answer came but could not be stored. Free some space; until then it counts as unknown."
WHY_OPEN = "No answer is recorded yet."

# --- Evidence ------------------------------------------------------------------------------------------------------

EVIDENCE = "Evidence"
EVIDENCE_RECORDS = "records {first} to {last}"
EVIDENCE_RECORD = "record {first}"
EVIDENCE_NONE = "No record can be shown."
DISPATCH_LINE = "Dispatch line"
LINE_ACCESSIBLE = "Dispatch line: what stands below was handed to a connection."
EVENT_ACCESSIBLE = "Record {record}, {at}: {text}. {caption}."

EVENT_ACCEPTED = "Accepted from {agent}"
EVENT_ACCEPTED_PLAIN = "Accepted"
EVENT_CHECKED = "Checked, and bound to its target"
EVENT_CARD = "A card asked the operator"
EVENT_APPROVED_CARD = "Approved on the card"
EVENT_APPROVED_PASSPHRASE = "Approved with the passphrase"  # noqa: S105 - words
EVENT_ALLOWED_GRANT = "Allowed by grant {grant}"
EVENT_ALLOWED_GRANT_PLAIN = "Allowed by a grant"
EVENT_ALLOWED_POLICY = "Allowed by policy"
EVENT_APPROVED = "Approved"
EVENT_DECIDED = "A decision was recorded"
EVENT_DENIED = "Denied by the operator"
EVENT_CREDENTIAL = "{credential} version {version} authorised"
EVENT_CREDENTIAL_NONE = "Authorised without a credential"
EVENT_CREDENTIAL_PLAIN = "Authorised"
EVENT_SETUP = "Set-up try {n} stopped at {stage}: {code}"
EVENT_PROBED = "A probe learnt the key of {learnt}"
EVENT_SETUP_PLAIN = "A set-up try stopped short"
EVENT_STOPPED = "Stopped before dispatch"
EVENT_DISPATCH = "Dispatch started"
EVENT_SENT = ("Request sent, one byte", "Request sent, all {n} bytes")
EVENT_SENT_PLAIN = "Request sent"
EVENT_ANSWER_STARTED = "An answer began: status {status}"
EVENT_ANSWER_STARTED_PLAIN = "An answer began"
EVENT_CANCEL = "The caller cancelled"
EVENT_GONE = "The caller ended"
EVENT_ANSWER_COMPLETE = "Complete answer: status {status}"
EVENT_ANSWER_COMPLETE_PLAIN = "Complete answer"
EVENT_RESULT = "Result recorded: {outcome}"
EVENT_RESULT_PLAIN = "A result was recorded"
EVENT_UNKNOWN = {
    ("REMOTE_OUTCOME_UNKNOWN", None): "The connection ended, no answer",
    ("REMOTE_OUTCOME_UNKNOWN", "answer_before_whole"): "Answered before all was sent",
    ("REMOTE_OUTCOME_UNKNOWN", "answer_before_request"): "An answer was there before it",
    ("REMOTE_DEADLINE", None): "No answer by the deadline",
    ("REMOTE_RESULT_INCOMPLETE", None): "The answer broke off",
    ("GATEWAY_UNCERTAIN", None): "Only a gateway answered",
    ("CALLER_CANCELLED", None): "Cancelled, no answer",
    ("CALLER_CANCELLED", "caller_ended"): "The caller ended, no answer",
    ("BROKER_RESTARTED", None): "Affidavit stopped, no answer",
    ("REMOTE_IN_PROGRESS", None): "The target says the key is in use",
    ("RESULT_STORAGE_FAILED", None): "The answer could not be stored",
}
EVENT_UNKNOWN_PLAIN = "No complete answer"
EVENT_JOB = "Followed as a job"
EVENT_LOOKED_UP = "Looked up: {answer}"
EVENT_LOOKED_UP_PLAIN = "Looked up"
EVENT_SETTLED_ATTESTED = "Attested as {outcome}"
EVENT_SETTLED_ATTESTED_ITEM = "Item {item} attested as {outcome}"
EVENT_SETTLED_QUERY = "Settled by a look-up: {outcome}"
EVENT_SETTLED_ANSWER = "Settled by a late answer: {outcome}"
EVENT_SETTLED_PLAIN = "Settled by later evidence"
EVENT_DISPUTED = "A record contradicts record {record}"
EVENT_DISPUTED_PLAIN = "A record contradicts an earlier one"
EVENT_LEASE = "A repeat took the lease"
EVENT_RELEASED = "The result was released to another session"
EVENT_DELIVERED = "The result was received whole"
EVENT_DELIVERY_FAILED = "The result could not be delivered"
EVENT_EXPIRED = "The result was deleted"

CAPTION_AGENT = "agent"
CAPTION_BROKER = "validation"
CAPTION_AUTHORISATION = "authorisation"
CAPTION_EXECUTION = "execution · durable before the first byte"
CAPTION_DELIVERY = "delivery"
CAPTION_SOURCE_UNKNOWN = "{source} · outcome unknown"
CAPTION_UNKNOWN = "outcome unknown"
CAPTION_FOR = "authorisation · for {fingerprint} …"
CAPTION_FOR_CREDENTIAL = "authorisation · for {fingerprint} … · {credential} version {version}"
CAPTION_QUERY_WORTH = "remote query · {worth}"
CAPTION_LATER = "later evidence"
CAPTION_REFERENCE = "attested by operator · {reference}"

# --- Items of a batch ----------------------------------------------------------------------------------------------

ITEMS = "Items"
ITEMS_COUNTS = "{committed} committed, {rejected} rejected, {unknown} unknown"
ITEMS_WHOLE = "The whole request: {outcome} (record {record}). Each item has its own outcome."
ITEM_ACCESSIBLE = "Item {n}, {key}: {outcome}. {evidence}."

# --- Ask the target ------------------------------------------------------------------------------------------------

ASK = "Ask the target"
ASK_READS = "reads only"
ASK_NONE = "No status query is known for this action."
ASK_SEALED = "A status query is known for this action. Unlock the vault to read it."
ASK_BY_HAND = "You can run this query at the target and attest what it shows. Affidavit does not send it from here."

# --- Attest it yourself --------------------------------------------------------------------------------------------

ATTEST = "Attest it yourself"
ATTEST_WHEN = "Only if you learned the outcome somewhere else. It is added beside the attempt; nothing above changes."
ATTEST_FOR = "For"
ATTEST_WHOLE = "The whole request"
ATTEST_ITEM = "Item {n}, {key}"
ATTEST_OUTCOME = "Outcome"
ATTEST_COMMITTED = "It happened (committed)"
ATTEST_REJECTED = "It did not (rejected)"
ATTEST_CHECKED = "I checked"
ATTEST_CHECKED_HINT = "What did you look at, and what did it show?"
ATTEST_REFERENCE = "Reference"
ATTEST_REFERENCE_HINT = "Ticket, object id, log line"
ATTEST_REVIEW = "Review statement…"
ATTEST_NEEDS_OUTCOME = "Choose what happened."
ATTEST_NEEDS_NOTE = "Say what you checked."
ATTEST_NOTE_LONG = "What you checked is {n} characters; the limit is {limit}."
ATTEST_REFERENCE_LONG = "The reference is {n} characters; the limit is {limit}."
ATTEST_LOCKED = "The vault is locked. Unlock it to attest."
ATTEST_DONE = {
    Outcome.COMMITTED: "You attested it as committed (record {record}). The attempt's own record stays beside it.",
    Outcome.REJECTED: "You attested it as rejected (record {record}). The attempt's own record stays beside it.",
}
ATTEST_DONE_ITEM = {
    Outcome.COMMITTED: "You attested item {item} as committed (record {record}). The answer's record stays beside it.",
    Outcome.REJECTED: "You attested item {item} as rejected (record {record}). The answer's record stays beside it.",
}

# --- Second look ---------------------------------------------------------------------------------------------------

SECOND_LOOK = "Read it once more before you sign"
LOOKED_AT = "I looked at"
STATE_THAT = "and I state that"
CLAIMS = {
    Outcome.COMMITTED: "“{title}”, operation {operation}, happened.",
    Outcome.REJECTED: "“{title}”, operation {operation}, did not happen.",
}
CLAIMS_ITEM = {
    Outcome.COMMITTED: "Item {n}, {key}, of “{title}”, operation {operation}, happened.",
    Outcome.REJECTED: "Item {n}, {key}, of “{title}”, operation {operation}, did not happen.",
}
SIGNED = "Operator of this vault, {on}"
ADDS = "Adds a record, marked “attested by operator”."
AGENT_TOLD = {
    Outcome.COMMITTED: "The agent is told: committed, by your word, not by an answer.",
    Outcome.REJECTED: "The agent is told: rejected, by your word, not by an answer.",
}
AGENT_TOLD_ITEM = {
    Outcome.COMMITTED: "The agent is told of this item: committed, by your word, not by an answer.",
    Outcome.REJECTED: "The agent is told of this item: rejected, by your word, not by an answer.",
}
ITEMS_FOLLOW = (
    "The item that is unknown takes this outcome, too.",
    "The {n} items that are unknown take this outcome, too.",
)
STAYS = "Record {record} stays as it is. {never}"
STAYS_UNNAMED = "What is recorded stays as it is. {never}"
NEVER_ERASED = "An attestation cannot be erased; a later one, or a proof, is added beside it."
PASSPHRASE = "Vault passphrase"  # noqa: S105 - words
PASSPHRASE_NEEDED = "Type the vault passphrase to sign."  # noqa: S105 - words
GO_BACK = "Go back"
SIGN = "Sign statement"
SIGN_ENTER = "Enter moves on to Sign statement. What you type is not read aloud."
OVERTAKEN = "It was settled while you were reading: {outcome}, {source}. Record {record} says so."
OVERTAKEN_ITEM = "This item was settled while you were reading: {outcome}."
SIGNING = "The statement is being recorded."

# --- Refusals ------------------------------------------------------------------------------------------------------

REFUSED = {
    "wrong_passphrase": "The passphrase does not open the vault. Nothing was recorded.",
    "locked": "The vault is locked. Nothing was recorded.",
    "not_known": "This action is not in the journal. Nothing was recorded.",
    "poisoned": "The journal cannot be written. Nothing was recorded.",
}
REFUSED_WITH_REMEDY = "{message} {remedy}"
INTERNAL = "Affidavit met a defect of its own and stopped this step. Activity shows what is recorded."
BROKER_GONE = "The broker does not answer. Nothing more is sent; quit Affidavit and start it again."

DEFECT = "Affidavit met a defect of its own ({what}) and stopped this step. Activity shows what is recorded."
CARD_WRONG_PASSPHRASE = "The passphrase does not open the vault. Nothing was decided."  # noqa: S105 - words
CANNOT_START = "Affidavit cannot start"
HELD_WITHOUT_WINDOW = "This home is run by `affidavit serve`, which has no window. Stop it first to use the tray."
NO_DISPLAY = "There is no display to show windows on. Without one, run: affidavit serve"
HELP_TRAY = "The tray application: broker, sockets, cards. If it runs already, its window is raised."
HELP_PASSPHRASE_FD = "read the passphrase from this file descriptor and open the vault with it"  # noqa: S105 - words
HELP_MINIMIZED = "start without a window, in the tray"

# --- Tray ----------------------------------------------------------------------------------------------------------

TRAY_READY = "Affidavit: ready"
TRAY_POISONED = "Affidavit: cannot record, nothing is sent"
TRAY_QUARANTINED = "Affidavit: needs review, nothing is sent"
TRAY_LOCKED = "Affidavit: the vault is locked"
TRAY_ABSENT = "Affidavit: no vault yet"
TRAY_WAITING = ("{n} request waits for you", "{n} requests wait for you")
TRAY_UNKNOWN = ("{n} outcome is unknown", "{n} outcomes are unknown")
TRAY_UNKNOWN_LATE = (
    "{n} outcome is unknown, past its deadline",
    "{n} outcomes are unknown, {late} past their deadline",
)
TRAY_ALERTS = ("{n} alert to look into", "{n} alerts to look into")
TRAY_RUNNING = ("{n} action is running", "{n} actions are running")
TRAY_GRANTS = ("{n} grant is in force", "{n} grants are in force")
TRAY_UNASKED = ("{n} route is allowed without asking", "{n} routes are allowed without asking")
TRAY_PENDING = ("{n} contract file waits for adoption", "{n} contract files wait for adoption")

MENU_REVIEW = ("Review {n} waiting request", "Review {n} waiting requests")
MENU_REVIEW_NONE = "No request is waiting"
MENU_UNKNOWN = ("{n} unknown outcome…", "{n} unknown outcomes…")
MENU_UNKNOWN_NONE = "Unknown outcomes…"
MENU_LOCK = "Lock now"
MENU_UNLOCK = "Unlock…"
MENU_OPEN = "Open Affidavit"
MENU_QUIT = "Quit"
MENU_QUIT_CARDS = ("Quit - {n} card closes", "Quit - {n} cards close")
MENU_QUIT_RUNNING = ("Quit - {n} action is running", "Quit - {n} actions are running")

QUIT_TITLE = ("{n} action is running", "{n} actions are running")
QUIT_TEXT = (
    "It was sent, and its answer is not recorded yet. If you quit now, Affidavit listens for 10 s more; "
    "what has no answer then is recorded as unknown.",
    "They were sent, and their answers are not recorded yet. If you quit now, Affidavit listens for 10 s more; "
    "what has no answer then is recorded as unknown.",
)
QUIT_WAIT = "Wait, then quit"
QUIT_NOW = "Quit now"
QUIT_STAY = "Stay open"
QUIT_WAITING = ("Quits when {n} action has its answer", "Quits when {n} actions have their answers")

# --- Main window ---------------------------------------------------------------------------------------------------

NAV_OVERVIEW = "Overview"
NAV_UNKNOWN = "Unknown"
NAV_ACTIVITY = "Activity"
NAV_HOSTS = "Hosts"
NAV_CURRENT = "This page is on show."

VAULT_OPEN = "Vault is open"
VAULT_LOCKED = "Vault is locked"
VAULT_QUARANTINED = "Vault needs review"
VAULT_ABSENT = "No vault yet"
VAULT_OPEN_NOTE = "agents may ask"
VAULT_LOCKED_NOTE = "nothing is sent"

STRIP_RECORD = "Journal record {record}"
STRIP_RECORD_NONE = "The journal has no record yet"
STRIP_POISONED = "The journal cannot be written; nothing is sent until that is mended"
STRIP_POISONED_WHY = "The journal cannot be written; nothing is sent until that is mended ({why})"
STRIP_AGENTS = ("{n} agent connected", "{n} agents connected")
STRIP_NO_AGENT = "No agent connected"
STRIP_CARDS = ("{n} card waiting", "{n} cards waiting")
STRIP_NO_CARD = "No card waiting"
STRIP_SHOW = "Show"
STRIP_SHOW_NAME = "Show the waiting cards"

OUTCOME_NOTES = {
    Outcome.COMMITTED: "answered completely, or settled so",
    Outcome.REJECTED: "the target said no",
    Outcome.UNKNOWN: "sent, and no answer decides",
    Outcome.NOT_ATTEMPTED: "never handed to a connection",
}
ALERTS = "To look into"
ALERT_CLOSE_ASK = "Close…"
ALERT_CLOSE = "Close alert"
ALERT_CLOSE_WHAT = "Close it once you have looked into it. The record of the alert stays, and so does what caused it."
ALERT_CLOSE_NEEDED = "Type the vault passphrase to close it."
ALERT_CLOSE_ENTER = "Enter moves on to Close alert. What you type is not read aloud."
ALERT_CLOSING = "The alert is being closed."
STOPPED_TITLE = "Where they stopped"
STOPPED_NOTE = "Phase and outcome of every action in the journal"
STOPPED_NONE = "none"
RUNG_ACCESSIBLE = "{phase}: {counts}"
BY_TARGET = "Unknown by target"
BY_TARGET_OPEN = "Open"
BY_TARGET_LATE = "{age}, past deadline"
OVERVIEW_EMPTY = "No action yet. What agents ask for appears here, with what is proven of it."
OVERVIEW_EMPTY_NEXT = "Add a credential with “affidavit credential add”, then let an agent call “affidavit http”."

ACTIVITY_EMPTY = "No action yet. Every request of an agent appears here, newest first."
ACTIVITY_COLUMNS = ("Time", "Outcome and code", "Target", "Operation")
HOSTS_COUNT = ("One host", "{n} hosts")
HOSTS_CUT = "{shown} of {n} hosts are shown; affidavit host list has them all."
HOSTS_EMPTY = "No hosts yet. Import your known_hosts and ssh_config here, or add one: affidavit host add --help"
HOSTS_LOCKED = "The vault is locked. Hosts appear once it is unlocked."
HOSTS_NEEDED = "Type the vault passphrase."
HOSTS_ENTER = "Enter moves on to {sign}. What you type is not read aloud."
HOSTS_BUSY = "The change is being recorded."
HOST_POLICY = "Host key policy: {policy}"
HOST_THROUGH = "through"
HOST_WITH = "with"
HOST_NO_KEY = {
    "strict": "No key is pinned: every command for it is refused.",
    "accept-new": "No key is pinned yet: a card shows the one it has at first contact.",
}
HOST_REVOKED = ("One key was revoked; it is never pinned again.", "{n} keys were revoked; they are never pinned again.")
HOST_FORGET_ASK = "Forget key…"
HOST_FORGET = "Forget key"
HOST_FORGET_WHAT = "{host} is no longer known by this key. It stays as it is at the host itself."
HOST_REMOVE_ASK = "Remove…"
HOST_REMOVE = "Remove host"
HOST_REMOVE_WHAT = "{host} is taken out, with its keys. Agents can run nothing on it any more. Records of it stay."
HOST_IMPORT_ASK = "Import…"
HOST_IMPORT = "Import file"
HOST_IMPORT_FILE = "Take in {file}."
HOST_IMPORT_WHAT = (
    "A known_hosts pins keys for hosts that are here; an ssh_config adds hosts whose IdentityFile is a credential."
)
HOST_IMPORT_UNREAD = "{file} cannot be read, is empty, or is over {kib} KiB."
IMPORTED_ADDED = ("One host is added.", "{n} hosts are added.")
IMPORTED_CHANGED = ("The keys of one host changed.", "The keys of {n} hosts changed.")
IMPORTED_SKIPPED = "Skipped, line {line}: {why}"
IMPORTED_MORE = ("One more line is skipped.", "{n} more lines are skipped.")
ACTIVITY_SHOWN = ("The newest action", "The newest {n} actions")
ACTIVITY_TAG = "{outcome}, {code}"

# --- Unlock --------------------------------------------------------------------------------------------------------

UNLOCK_TITLE = "Unlock the vault"
UNLOCK_WHY = "Until then nothing is sent, and details stay sealed."
UNLOCK = "Unlock"
UNLOCK_NEEDED = "Type the vault passphrase."
UNLOCK_ENTER = "Enter unlocks. What you type is not read aloud."
UNLOCKING = "The passphrase is being checked."
UNLOCK_LATER = "Not now"
UNLOCK_WRONG = "The passphrase does not open the vault."
CONTRACTS_PENDING = (
    "{n} contract file is new or changed and matches nothing until you adopt it with “affidavit contract adopt”.",
    "{n} contract files are new or changed and match nothing until you adopt them with “affidavit contract adopt”.",
)

# --- First run -----------------------------------------------------------------------------------------------------

CREATE_TITLE = "Create the vault"
CREATE_WHAT = "It holds the credentials your agents use and never see."
CREATE_PASSPHRASE = "Passphrase"  # noqa: S105 - words
CREATE_AGAIN = "Once more"
CREATE_OPENS = "What opens it"
CREATE_BOTH = "Passphrase and login keyring"
CREATE_BOTH_NOTE = "A copied disk is useless without your login; a program running as you is stopped by the passphrase."
CREATE_WITHOUT_KEYRING = "Passphrase only"
CREATE_WITHOUT_KEYRING_NOTE = (
    "No keyring needed. The passphrase alone protects a copied disk; ids, times and verdicts can be read from it."
)
CREATE = "Create vault"
CREATE_NO_WAY_BACK = "There is no way to recover a lost passphrase."
CREATE_NEEDS_PASSPHRASE = "Choose a passphrase."  # noqa: S105 - words
CREATE_NEEDS_LENGTH = "A passphrase has at least {n} characters."
CREATE_DIFFERS = "The two passphrases differ."
CREATE_ENTER = "Enter moves on. What you type is not read aloud."
CREATING = "The vault is being created."
