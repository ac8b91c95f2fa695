"""The one table of methods: the server checks params by it; commands, tools and manual are made from it.

A method stands here once, with what it takes, what it answers and what it does. Where two things differ by socket
they are two methods: none of the operator's can be named on the agent socket (R73).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Socket = Literal["agent", "operator"]

ParamType = Literal[
    "string", "integer", "number", "boolean", "strings", "files", "headers", "json", "passphrase", "secret"
]
"""`strings`: an array of them. `files`: an array of `{file, text}`. `headers`: an object of texts, or an array of
`[name, value]`. `json`: any value. `passphrase`: a string, and `secret`: base64 of a secret's bytes; both reach their
handler as a bytearray under the param's `name`, less the suffix `_base64`."""

SCOPES = ("mine", "all")
OUTCOMES = ("not_attempted", "rejected", "committed", "unknown")
PENDING_STATES = ("awaiting_approval", "running")
PARTS = ("body", "stdout", "stderr")
SIGNALS = ("ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2")
"""The signals that SSH has names for (RFC 4254, 6.10)."""
CREDENTIAL_KINDS = ("bearer", "basic", "header", "query", "sigv4", "oauth2", "mtls", "ssh-key", "ssh-password")
HOST_KEY_POLICIES = ("strict", "accept-new")
ID_CHARS = 128
NOTE_CHARS = 4_000
PASSPHRASE_BYTES = 4_096
SECRET_BYTES = 64 * 1024
PEM_CHARS = 64 * 1024
TEXT_CHARS = 256 * 1024
PAGE = 50
PAGE_MAX = 200
WAIT_MAX_S = 600.0


class Param(NamedTuple):
    """One param. `choices` closes a string; `least` and `most` bound a number's value, a string's or array's length."""

    name: str
    type: ParamType
    doc: str
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    least: float = 0
    most: float = ID_CHARS


class Method(NamedTuple):
    """One method of one socket."""

    name: str
    socket: Socket
    doc: str
    params: tuple[Param, ...]
    result: str
    """What the answer holds, in the words of the manual."""
    handler: str
    """The name of the function that answers it, on `AgentCalls` or `OperatorCalls`."""
    acting: bool = False
    """It changes something. A connection that drops does not stop such a call."""
    while_locked: bool = True
    """It works while the vault is locked."""
    envelope: bool = False
    """Its answer is an envelope: once written whole, the result in it counts as written (R42)."""
    raw: bool = False
    """Its params go to the broker unread, which answers wrong ones with an envelope (interface, section 3)."""
    frames: bool = False
    """Where it is answered with a result, its connection carries frames from there on. It stands alone on its own."""
    one_of: tuple[str, ...] = ()
    """Exactly one of these params is given."""


_INVOCATION = Param("invocation_id", "string", "The invocation, `act_...`.", required=True)
_WAIT = Param("wait_s", "number", "How long to wait before `pending` is answered, in seconds.", most=WAIT_MAX_S)
_PART = Param("part", "string", "Which part of the result.", default="body", choices=PARTS)
_LIST = (
    Param("outcome", "string", "Only this outcome.", choices=OUTCOMES),
    Param("state", "string", "Only pending ones in this state.", choices=PENDING_STATES),
    Param("limit", "integer", "How many rows at most.", default=PAGE, least=1, most=PAGE_MAX),
    Param("before", "string", "Go on where the last page ended: its `before`."),
)
_PASSPHRASE = Param("passphrase", "passphrase", "The vault's passphrase.", required=True, most=PASSPHRASE_BYTES)
_SECRET = Param("secret_base64", "secret", "The secret's bytes.", required=True, least=1, most=SECRET_BYTES)
_NAME = Param("name", "string", "The credential's name.", required=True, least=1)
_CERTIFICATE = Param(
    "certificate",
    "string",
    "Of `mtls` the certificate in PEM, its own first; of `ssh-key` an OpenSSH user certificate.",
    most=PEM_CHARS,
)
_KEY_PASSPHRASE = Param(
    "key_passphrase_base64", "secret", "The passphrase of the key file of `ssh-key`.", least=1, most=PASSPHRASE_BYTES
)
_HOST_NAME = Param("name", "string", "The host entry's name.", required=True, least=1)
_ANCHOR = Param("name", "string", "The authority's name.", required=True, least=1)

_SHARED = (
    "operation_id",
    "correlation_id",
    "idempotency_key",
    "deadline_s",
    "wait_s",
    "reason",
    "read_for",
    "acknowledge_unresolved",
)
"""What every acting call of an agent takes."""

_HTTP = (
    Param("method", "string", "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE; others only by contract.", required=True),
    Param("url", "string", "The target.", required=True, most=8 * 1024),
    Param("headers", "headers", "An object, or an array of [name, value] pairs."),
    Param("body", "string", "The body as text.", most=8 * 1024 * 1024),
    Param("body_base64", "string", "The body's bytes.", most=12 * 1024 * 1024),
    Param("json", "json", "The body as JSON; it goes out in its canonical form (RFC 8785)."),
    Param("credential", "string", "The credential by name; left out, the one that is bound to the target."),
    Param("operation_id", "string", "Your durable name for this operation. Choose it before you send."),
    Param("correlation_id", "string", "Your name for the run that this belongs to."),
    Param("idempotency_key", "string", "A key of your own, where a contract documents one."),
    Param("deadline_s", "number", "Seconds from authorisation to the settled answer.", least=0.1, most=3600),
    _WAIT,
    Param("reason", "string", "Why, in a sentence for the person who approves.", most=500),
    Param("read_for", "string", "What the answer of a read is for.", choices=("refresh", "decides_write")),
    Param("acknowledge_unresolved", "string", "The unknown invocation whose effect may happen twice."),
)

_SSH = (
    Param("host", "string", "A host entry, or the address of the one entry that has it.", required=True, most=253),
    Param("user", "string", "Where given, the entry must log in as this user.", least=1),
    Param("port", "integer", "Where given, the entry must have this port.", least=1, most=65535),
    Param("command", "string", "The command, for the user's shell there.", required=True, least=1, most=32_000),
    Param("stdin", "string", "Its input as text.", most=8 * 1024 * 1024),
    Param("stdin_base64", "string", "Its input's bytes.", most=12 * 1024 * 1024),
    Param(
        "stream",
        "json",
        'true: input and outputs go over a connection of their own while the command runs; "output": outputs alone.',
    ),
    Param("env", "json", "Variables as an object of texts. A host that refuses one refuses the action."),
    Param("credential", "string", "The credential by name; left out, the one that logs in to the host."),
    *(each for each in _HTTP if each.name in _SHARED),
)

AGENT = (
    Method(
        "session.hello",
        "agent",
        "Say who you are, and be told of your own actions from now on.",
        (
            Param("client", "string", "The program's own name. Shown as its claim.", most=128),
            Param("version", "string", "Its version.", most=64),
            Param("protocol", "integer", "The protocol, 1.", default=1, least=1, most=1),
        ),
        "`server`, `protocol`, `session_id`, `vault` (`locked`, `ready`, `quarantined`), `journal` (`ok`, `poisoned`), "
        "`limits`.",
        "hello",
    ),
    Method(
        "http.request",
        "agent",
        "Send one HTTP request with a credential that you never see.",
        _HTTP,
        "An envelope with `result` or `pending`; else error -32001 with the envelope as `data`.",
        "http_request",
        acting=True,
        while_locked=False,
        envelope=True,
        raw=True,
    ),
    Method(
        "ssh.exec",
        "agent",
        "Run one command on a host that the operator has set up, with a login that you never see.",
        _SSH,
        "An envelope with `result` or `pending`; else error -32001 with the envelope as `data`.",
        "ssh_exec",
        acting=True,
        while_locked=False,
        envelope=True,
        raw=True,
    ),
    Method(
        "stream.attach",
        "agent",
        "Turn this connection into the stream of a command of your own, once `stream.ready` has named it.",
        (_INVOCATION,),
        "`attached`: true. Frames follow: channel (0 stdin, 1 stdout, 2 stderr, 255 end) and length, then the bytes.",
        "stream_attach",
        acting=True,
        frames=True,
    ),
    Method(
        "action.get",
        "agent",
        "What the records say of an action.",
        (
            _INVOCATION._replace(required=False),
            Param("operation_id", "string", "The operation; its newest invocation answers."),
            Param("events", "boolean", "Add every record.", default=False),
        ),
        "The envelope; with `events` also `events` of `{record, at, kind, detail}` and `invocations` of the operation.",
        "action_get",
        envelope=True,
        one_of=("invocation_id", "operation_id"),
    ),
    Method(
        "action.wait",
        "agent",
        "Wait until an action is no longer pending.",
        (_INVOCATION, _WAIT),
        "The envelope, at once unless it is `pending`; that after `wait_s`.",
        "action_wait",
        envelope=True,
    ),
    Method(
        "action.list",
        "agent",
        "Actions, newest first.",
        (Param("scope", "string", "Your own, or every session's.", default="mine", choices=SCOPES), *_LIST),
        "`rows` of `{invocation_id, operation_id, at, state, phase, outcome, code, retry, target}`, and `before` for "
        "the next page or null.",
        "action_list",
    ),
    Method(
        "action.retry",
        "agent",
        "Repeat an operation as its record allows it: what is sent is the same, and a person may be asked again.",
        (
            _INVOCATION,
            _WAIT,
            Param(
                "unsafe",
                "boolean",
                "Repeat although it may happen twice. A person is shown that, and must tick it.",
                default=False,
            ),
            Param("request", "json", "The params of `http.request` once more, where the answer says `needs: request`."),
        ),
        "The envelope of the repeat; or that of the record, with why nothing was sent.",
        "action_retry",
        acting=True,
        envelope=True,
    ),
    Method(
        "action.reconcile",
        "agent",
        "Ask the target what became of an action, where its contract says how.",
        (_INVOCATION,),
        "The envelope after the look-up; without one, or while locked, the recorded one.",
        "action_reconcile",
        acting=True,
        envelope=True,
    ),
    Method(
        "action.cancel",
        "agent",
        "Stop an action of your own: before its dispatch it is not attempted, after it unknown.",
        (
            _INVOCATION,
            Param("signal", "string", "Sent first to a command that runs. It proves nothing.", choices=SIGNALS),
        ),
        "The envelope; a finished one as recorded.",
        "action_cancel",
        acting=True,
        envelope=True,
    ),
    Method(
        "result.fetch",
        "agent",
        "One chunk of a stored result. It never causes a dispatch.",
        (
            _INVOCATION,
            Param("chunk", "integer", "Which chunk, from 0.", default=0, most=2**31),
            _PART,
        ),
        "`chunk`, `chunks`, `base64`, `sha256`, `last`, `complete`.",
        "result_fetch",
        while_locked=False,
    ),
    Method(
        "result.ack",
        "agent",
        "Say that a result was received whole.",
        (_INVOCATION, Param("sha256", "string", "The hash of what was received.", required=True), _PART),
        "`delivered`: every part is.",
        "result_ack",
        acting=True,
    ),
    Method(
        "credential.list",
        "agent",
        "Which credentials there are, never their values.",
        (),
        "`credentials`: names, kinds, targets, versions.",
        "credential_list",
        while_locked=False,
    ),
    Method(
        "contract.list",
        "agent",
        "Which contracts are in force.",
        (),
        "`contracts`: id, title, effect, what they match.",
        "contract_list",
        while_locked=False,
    ),
    Method(
        "contract.explain",
        "agent",
        "Which contract a call would fall under, and what it promises.",
        (
            Param("method", "string", "The HTTP method.", required=True, least=1, most=64),
            Param("url", "string", "The target.", required=True, least=1, most=8 * 1024),
        ),
        "The contract, its effect, its three answers.",
        "contract_explain",
        while_locked=False,
    ),
    Method(
        "status",
        "agent",
        "How the broker is.",
        (),
        "Version, state of vault and journal, counts by phase and outcome, open actions.",
        "status",
    ),
)

OPERATOR = (
    Method(
        "operator.hello",
        "operator",
        "Whom you are about to give a passphrase to.",
        (),
        "`server`, `protocol`, `home`, `home_from`, `pid`, `program`, `vault`.",
        "hello",
    ),
    Method("status", "operator", "How the broker is.", (), "As on the agent socket.", "status"),
    Method(
        "app.raise",
        "operator",
        "Raise the window of the tray application.",
        (),
        "`raised`: false where there is no window.",
        "raise_window",
        acting=True,
    ),
    Method(
        "vault.unlock",
        "operator",
        "Open the vault.",
        (_PASSPHRASE,),
        "The state of the vault.",
        "unlock",
        acting=True,
    ),
    Method("vault.lock", "operator", "Close the vault.", (), "`vault`: `locked`.", "lock", acting=True),
    Method(
        "approval.list",
        "operator",
        "The cards that wait, without bodies.",
        (),
        "`cards`, oldest first.",
        "approval_list",
    ),
    Method(
        "approval.show",
        "operator",
        "One card as a person sees it, body included.",
        (_INVOCATION, _PASSPHRASE),
        "The card.",
        "approval_show",
    ),
    Method(
        "approval.approve",
        "operator",
        "Approve a card. The passphrase stands for its tick.",
        (
            _INVOCATION,
            Param("scope", "string", "Left out, the one that the card preselects.", choices=("once", "session")),
            _PASSPHRASE,
        ),
        "What was decided.",
        "approval_approve",
        acting=True,
    ),
    Method(
        "approval.deny",
        "operator",
        "Deny a card.",
        (_INVOCATION, Param("reason", "string", "Why, told to the agent.", most=500)),
        "What was decided.",
        "approval_deny",
        acting=True,
    ),
    Method(
        "attestation.add",
        "operator",
        "Put beside an unknown outcome what you found out by other means.",
        (
            _INVOCATION,
            Param("outcome", "string", "What is attested.", required=True, choices=("committed", "rejected")),
            Param("note", "string", "How you know.", required=True, least=1, most=NOTE_CHARS),
            Param("reference", "string", "Where it can be looked up.", most=1_024),
            Param("item", "string", "The key of one item of a batch."),
            Param("supersedes", "integer", "The record of the attestation that this corrects.", least=1, most=2**63),
            _PASSPHRASE,
        ),
        "The envelope.",
        "attest",
        acting=True,
    ),
    Method(
        "alert.close",
        "operator",
        "Close an alert that was looked into. It stays in the journal.",
        (
            Param("alert_id", "integer", "The alert's `id` in `status`.", required=True, least=1, most=2**31),
            _PASSPHRASE,
        ),
        "`closed`: the id.",
        "alert_close",
        acting=True,
    ),
    Method(
        "action.get",
        "operator",
        "What the records say of an action, whoever asked for it.",
        (_INVOCATION,),
        "The envelope with `events`.",
        "action_get",
    ),
    Method("action.list", "operator", "Actions, newest first.", _LIST, "`rows` and `before`.", "action_list"),
    Method(
        "unknown.list",
        "operator",
        "Operations whose outcome is unknown now.",
        (),
        "`rows`: envelopes with `events`; past their recovery deadline first, then by time left.",
        "unknown_list",
    ),
    Method(
        "credential.add",
        "operator",
        "Put a credential into the vault.",
        (
            _NAME,
            Param("kind", "string", "How it is used.", required=True, choices=CREDENTIAL_KINDS),
            Param("targets", "strings", "The patterns of where it may go.", required=True, least=1, most=64),
            Param("approval", "string", "Its approval mode.", choices=("never", "session", "always", "passphrase")),
            Param("private", "boolean", "Its targets may lead to private and loopback addresses.", default=False),
            Param("header", "string", "The header that carries it; of kind `query` the parameter's name."),
            Param("format", "string", "The header's text, with `{secret}`.", most=1_024),
            Param(
                "username", "string", "The user name of `basic`; the one user of `ssh-key`, `ssh-password`.", most=256
            ),
            Param("access_key", "string", "The access key id of `sigv4`."),
            Param("region", "string", "The region of `sigv4`."),
            Param("service", "string", "The service of `sigv4`, as signatures name it."),
            Param("token_url", "string", "The token service of `oauth2`.", most=8 * 1024),
            Param("client_id", "string", "The client of `oauth2`.", most=256),
            Param("scope", "string", "The scope of `oauth2`.", most=1_024),
            Param("client_auth", "string", "How the client's secret is given.", choices=("basic", "body")),
            Param("refresh", "boolean", "The secret of `oauth2` is a refresh token.", default=False),
            _CERTIFICATE,
            Param("interactive", "boolean", "The password of `ssh-password` answers a prompt.", default=False),
            _KEY_PASSPHRASE,
            _SECRET,
            _PASSPHRASE,
        ),
        "Name, version, and `warnings`.",
        "credential_add",
        acting=True,
    ),
    Method(
        "credential.list",
        "operator",
        "Which credentials there are, never their values.",
        (_PASSPHRASE,),
        "`credentials`.",
        "credential_list",
    ),
    Method(
        "credential.rotate",
        "operator",
        "Give a credential a new secret: its next version.",
        (_NAME, _CERTIFICATE, _KEY_PASSPHRASE, _SECRET, _PASSPHRASE),
        "Name and version.",
        "credential_rotate",
        acting=True,
    ),
    Method(
        "credential.remove",
        "operator",
        "Take a credential out of the vault.",
        (_NAME, _PASSPHRASE),
        "Name.",
        "credential_remove",
        acting=True,
    ),
    Method(
        "host.add",
        "operator",
        "Add an SSH host.",
        (
            _HOST_NAME,
            Param("address", "string", "A name or an IP address.", required=True, least=1, most=256),
            Param("port", "integer", "Its port.", default=22, least=1, most=65_535),
            Param("user", "string", "The user to log in as.", required=True, least=1, most=256),
            Param("credential", "string", "The credential that logs in, by name.", required=True, least=1),
            Param("jump", "string", "The host entry through which it is reached."),
            Param("host_keys", "strings", "Its keys, as in `known_hosts` after the names.", default=(), most=32),
            Param("policy", "string", "What becomes of an unknown key.", default="strict", choices=HOST_KEY_POLICIES),
            _PASSPHRASE,
        ),
        "The entry as in `host.list`, and `warnings`.",
        "host_add",
        acting=True,
    ),
    Method(
        "host.edit",
        "operator",
        "Change an SSH host. What is left out stays; another address or port forgets its keys.",
        (
            _HOST_NAME,
            Param("address", "string", "A name or an IP address.", least=1, most=256),
            Param("port", "integer", "Its port.", least=1, most=65_535),
            Param("user", "string", "The user to log in as.", least=1, most=256),
            Param("credential", "string", "The credential that logs in, by name.", least=1),
            Param("jump", "string", "The host entry through which it is reached; empty: none."),
            Param("host_keys", "strings", "Keys to pin too, as in `known_hosts`.", default=(), most=32),
            Param("forget_keys", "strings", "Fingerprints of keys to forget, `SHA256:...`.", default=(), most=32),
            Param("policy", "string", "What becomes of an unknown key.", choices=HOST_KEY_POLICIES),
            _PASSPHRASE,
        ),
        "The entry as in `host.list`, the keys `pinned` and `removed`, and `warnings`.",
        "host_edit",
        acting=True,
    ),
    Method(
        "host.list",
        "operator",
        "Which SSH hosts there are.",
        (_PASSPHRASE,),
        "`hosts`: each with name, address, port, user, credential, jump, policy, keys, digest.",
        "host_list",
    ),
    Method(
        "host.remove",
        "operator",
        "Remove an SSH host.",
        (_HOST_NAME, _PASSPHRASE),
        "Name.",
        "host_remove",
        acting=True,
    ),
    Method(
        "host.import",
        "operator",
        "Take hosts or their keys from a file of OpenSSH.",
        (
            Param("text", "string", "A known_hosts or ssh_config.", required=True, least=1, most=TEXT_CHARS),
            Param("credential", "string", "The credential of hosts whose IdentityFile names none."),
            Param("user", "string", "The user of hosts that name none.", most=256),
            _PASSPHRASE,
        ),
        "`added`, `changed` with the keys pinned, removed and revoked, `skipped` with line and reason, `warnings`.",
        "host_import",
        acting=True,
    ),
    Method(
        "trust.add",
        "operator",
        "Trust a private certificate authority for some targets.",
        (
            _ANCHOR,
            Param("ca", "string", "The authority in PEM, or several.", required=True, least=1, most=PEM_CHARS),
            Param("targets", "strings", "The patterns of the servers it vouches for.", required=True, least=1, most=64),
            _PASSPHRASE,
        ),
        "The authority: name, targets, subjects, until when, digest.",
        "trust_add",
        acting=True,
    ),
    Method(
        "trust.list",
        "operator",
        "Which private authorities are trusted.",
        (_PASSPHRASE,),
        "`trust`: each with name, targets, subjects, until when, digest.",
        "trust_list",
    ),
    Method(
        "trust.remove",
        "operator",
        "Trust an authority no longer.",
        (_ANCHOR, _PASSPHRASE),
        "Name.",
        "trust_remove",
        acting=True,
    ),
    Method(
        "proxy.set",
        "operator",
        "Reach https targets through this proxy.",
        (
            Param("url", "string", "Scheme, host and port.", required=True, least=1, most=1_024),
            Param("credential", "string", "The credential that the proxy asks for, by name."),
            Param("no_proxy", "strings", "Hosts that are reached directly.", default=(), most=256),
            Param("trusted", "boolean", "Its Proxy-Status counts as proof.", default=False),
            _PASSPHRASE,
        ),
        "`url`, `credential`, `no_proxy`, `trusted`, `set_at`, `warnings`.",
        "proxy_set",
        acting=True,
    ),
    Method(
        "proxy.show",
        "operator",
        "Which proxy is in use.",
        (_PASSPHRASE,),
        "`url` (null for none), `credential`, `no_proxy`, `trusted`, `set_at`.",
        "proxy_show",
    ),
    Method(
        "proxy.off",
        "operator",
        "Connect directly again.",
        (_PASSPHRASE,),
        "As `proxy.show`.",
        "proxy_off",
        acting=True,
    ),
    Method(
        "contract.pending",
        "operator",
        "Contract files that are new or changed, and match nothing until they are adopted.",
        (),
        "`files`, each with its difference.",
        "contract_pending",
    ),
    Method(
        "contract.adopt",
        "operator",
        "Adopt contract files, all or none.",
        (Param("files", "files", "Names and texts.", required=True, least=1, most=256), _PASSPHRASE),
        "What was adopted.",
        "contract_adopt",
        acting=True,
    ),
    Method("contract.list", "operator", "Which contracts are in force.", (), "`contracts`.", "contract_list"),
    Method("settings.show", "operator", "The settings in force.", (), "`settings`.", "settings_show"),
    Method(
        "settings.set",
        "operator",
        "Change a setting.",
        (
            Param("key", "string", "Which.", required=True, least=1),
            Param("value", "string", "To what, as it would stand in a settings file.", required=True, most=1_024),
            _PASSPHRASE,
        ),
        "The setting: the operator's `value`, what is `in_force` with it, and whom that is `set_by`.",
        "settings_set",
        acting=True,
    ),
)

METHODS: dict[Socket, dict[str, Method]] = {
    "agent": {method.name: method for method in AGENT},
    "operator": {method.name: method for method in OPERATOR},
}
