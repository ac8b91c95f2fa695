"""What a wire and the engine say to each other about one HTTP exchange.

The engine hands over a request built in a private buffer and a `Line`; the wire observes and reports facts. It never
names a phase, an outcome or a retry: `outcome.py` reads them from the evidence (R1, R13).

Order of calls on a `Line`, all on the broker's loop:
`cross` once, after set-up and before the first byte of the request (R18, R23); then `request_sent` and
`response_started`, each at most once and in either order; body bytes go to the sink as they come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from affidavit.broker.secret import Secret
from affidavit.broker.terms import Stage


class SetupFault(StrEnum):
    """Why set-up stopped; with the stage it selects a row of `outcome.SETUP_ROWS`."""

    NOT_FOUND = "not_found"
    TEMPORARY = "temporary"
    BLOCKED = "blocked"
    """A resolved address is never allowed, or is private or loopback without leave."""
    REFUSED = "refused"
    """Refused, unreachable, or reset before the line."""
    LIMIT = "limit"
    """The stage's own limit passed. Over SSH the action's deadline is every stage's limit too."""
    DEADLINE = "deadline"
    """The action's deadline passed."""
    HANDSHAKE = "handshake"
    """TLS broke off for another reason than the certificate."""
    CERTIFICATE = "certificate"
    """Expired, wrong name, or not trusted."""
    CLIENT_CERTIFICATE = "client_certificate"
    """The peer asked for a client certificate and refused what it got."""
    GARBLED = "garbled"
    """What came is not SSH: garbage, a packet that is not authentic, a message out of its place."""
    INCOMPATIBLE = "incompatible"
    """The peer has no version of SSH, or no algorithm, that is accepted here."""
    HOST_KEY_UNKNOWN = "host_key_unknown"
    """No key is pinned for this SSH host."""
    HOST_KEY_DIFFERS = "host_key_differs"
    """The SSH host did not show the pinned key: it showed another, or has none of that kind."""
    AUTH_REFUSED = "auth_refused"
    """The SSH login was refused, or its method is not allowed."""
    AUTH_PARTIAL = "auth_partial"
    """The SSH login was good, and more factors are wanted."""
    CHANNEL_SHORTAGE = "channel_shortage"
    """The SSH channel was refused for want of resources."""
    CHANNEL_PROHIBITED = "channel_prohibited"
    """The SSH channel was refused for any other reason."""
    VARIABLE_REFUSED = "variable_refused"
    """The SSH server takes no environment variable of that name."""
    PROXY_UNREACHABLE = "proxy_unreachable"
    """The proxy's name is not found, or no connection to it comes about."""
    PROXY_GARBLED = "proxy_garbled"
    """What the proxy answered to CONNECT is not HTTP/1, or more than a head."""
    PROXY_ERROR = "proxy_error"
    """The proxy answered 5xx to CONNECT."""
    PROXY_REFUSED = "proxy_refused"
    """The proxy gave any other answer to CONNECT that opens no tunnel: 3xx, 407, ..."""


@dataclass(frozen=True, slots=True)
class SetupStop:
    """One set-up try that stopped short: an entry of `evidence.attempts`, less its number and verdict."""

    reached: Stage | None
    """The last stage that was completed."""
    stage: Stage
    """The stage where it stopped."""
    fault: SetupFault
    system: str
    """The system's own code: ECONNREFUSED, EAI_AGAIN, CERT_EXPIRED, ... never a library's exception name. A proxy's
    answer is HTTP_407 and the like."""
    address: str | None = None
    detail: str = ""
    """For the sealed diagnosis; a proxy's Proxy-Status stands here (RFC 9209)."""
    name: str | None = None
    """The environment variable that was refused."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection a request goes out on; its peer is bound to the record (R35)."""

    id: str
    peer: str
    """Address and port as `203.0.113.7:443` or `[2001:db8::1]:443`; behind a proxy, the proxy's."""
    reused: bool = False
    """It served an earlier request of the same `reuse`: no set-up was done for this one (R17)."""
    identity: str | None = None
    """`sha256:` of the target's leaf certificate in DER; None without TLS."""
    resolved_by: str | None = None
    """`proxy` where the proxy looks up the target's name; None where it was looked up, or nothing had to be, here."""
    proxy: str | None = None
    """The proxy's host and port, as in a URL; None without one."""


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A whole request in a private buffer, secret included: still not attempted (R13).

    `target` is the origin-form request target. `headers` are in the order in which they go out, Host first whatever its
    place, and include Host and, where there is a body, Content-Length. The repr names no value.
    """

    method: str
    scheme: str
    host: str
    """The A-label name or literal (IPv6 without brackets) that is dialled, or named to the proxy, sent as SNI and
    checked against the certificate."""
    port: int
    target: bytes = field(repr=False)
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class ClientCertificate:
    """What a target that asks who calls is shown (mutual TLS)."""

    chain: bytes
    """PEM certificates, the client's own first."""
    key: Secret
    """Its private key in PEM, not encrypted. Lent once, when set-up begins."""


@dataclass(frozen=True, slots=True)
class TlsTerms:
    """What TLS with one target goes by, beyond what holds for all."""

    authorities: bytes = b""
    """PEM certificates that are trusted beside the system's."""
    client: ClientCertificate | None = None


class KeyUnusable(Exception):
    """A client certificate and its key cannot be used: malformed, encrypted, or not a pair. Nothing was attempted.

    `system` is OpenSSL's reason, which names no value.
    """

    def __init__(self, system: str) -> None:
        super().__init__(system)
        self.system = system


@dataclass(frozen=True, slots=True)
class ProxyRoute:
    """An HTTP proxy that is asked for a tunnel to the target (CONNECT; RFC 9110, 9.3.6). Operator's data.

    Its own address is not put to an AddressCheck: the operator named it, and in a company's network it is private.
    """

    host: str
    """An A-label name or a literal, IPv6 without brackets."""
    port: int
    tls: bool = False
    """Whether the proxy itself is spoken to over TLS."""
    authorization: bytes | None = field(default=None, repr=False)
    """Value of Proxy-Authorization. The proxy alone sees it."""
    authorities: bytes = b""
    """PEM certificates that are trusted for the proxy's own certificate, beside the system's."""

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


AddressCheck = Callable[[str], bool]
"""Whether this resolved address may be connected to. Every address of a DNS answer must pass."""


@dataclass(frozen=True, slots=True)
class SetupLimits:
    """Each stage's own limit, in seconds."""

    dns_s: float = 5.0
    tcp_connect_s: float = 10.0
    tls_handshake_s: float = 10.0
    proxy_tunnel_s: float = 10.0
    """For TLS with the proxy and its answer to CONNECT together."""


class Fault(StrEnum):
    """What ended an exchange short of a complete answer, as seen by the transport."""

    CLOSED = "closed"
    """The peer closed in order (a FIN, or close_notify where no close-delimited body was open; over SSH also a
    disconnect, or the end of the channel)."""
    RAGGED = "ragged"
    """The peer closed TLS without close_notify."""
    RESET = "reset"
    WRITE_FAILED = "write_failed"
    """The write failed, and nothing that settles the matter could be read afterwards."""
    MALFORMED = "malformed"
    """Not HTTP/1, a head that does not parse or is over its limit, a status out of 100-599, broken chunks; a packet
    that is not authentic or not SSH."""
    FRAMING = "framing"
    """Conflicting lengths, Content-Length with Transfer-Encoding, or a plain FIN that would have to end the body."""
    UPGRADE = "upgrade"
    """101 that nobody asked for."""
    SILENT = "silent"
    """Nothing came any more, not even answers to keep-alive probes."""
    CONTRADICTION = "contradiction"
    """What the peer sent contradicts itself or the protocol's order, so none of it decides."""
    ABANDONED = "abandoned"
    """The broker closed the connection: recovery deadline, quit, or too many kept open. Before the line, with nothing
    sent: `crossed` and `stopped` stay unset then."""


@dataclass(frozen=True, slots=True)
class HttpEvidence:
    """What is known of one exchange: a snapshot that may be taken at any moment, and the final word of `run`.

    `stopped` is set only if the line was not crossed. After it, `fault` and `complete` exclude each other, and both
    unset means that the exchange still runs.
    """

    crossed: bool = False
    stopped: SetupStop | None = None
    connection: Connection | None = None
    bytes_sent: int = 0
    request_complete: bool = False
    answer_before_request: bool = False
    """A byte of the final head was there before our first byte went: it answers nothing."""
    status_line: bool = False
    """A whole final (not 1xx) status line was received."""
    anything_final: bool = False
    """At least one byte that is not part of a 1xx head was received."""
    status: int | None = None
    """Set once the final head is complete and well formed."""
    headers: tuple[tuple[str, str], ...] = ()
    """Final response headers, names in lower case, in order, repeats kept."""
    early: bool = False
    """The final head came before our request was wholly handed over."""
    body_bytes: int = 0
    complete: bool = False
    """The answer is framed to its end."""
    completion: str | None = None
    """`content-length`, `chunked`, `close_notify`, `close` (a plain FIN, where asked for), `head` or `no-content`."""
    fault: Fault | None = None
    observation: str | None = None
    """A short English phrase for `transport_observation`, such as "closed by peer after request write"."""
    diagnostic: bytes = field(default=b"", repr=False)
    """At most 4 KiB of an incomplete or malformed answer: its head as it came, and its body, framing removed; redacted
    before it is kept."""


class Line(Protocol):
    """The engine's side of one exchange."""

    async def cross(self, connection: Connection) -> None:
        """Return only when DISPATCH_STARTED is durable. If it raises, nothing is sent and the connection is closed."""

    def request_sent(self, sent: int) -> None:
        """The whole request, `sent` bytes, was handed to the transport."""

    def response_started(self, status: int | None, headers: tuple[tuple[str, str], ...]) -> None:
        """The final head is complete; None without headers for an SSH exec reply."""


class BodySink(Protocol):
    """Takes the response body as it arrives, framing removed, content coding kept. Awaiting it is the back-pressure."""

    async def write(self, data: bytes) -> None: ...


class Exchange(Protocol):
    """One set-up try and, if it reaches the line, one dispatch."""

    @property
    def evidence(self) -> HttpEvidence:
        """What is known at this moment."""

    async def run(self) -> HttpEvidence:
        """Drive the exchange to its end. Remote faults are evidence; only what `Line.cross` raises comes through.

        Before anything is attempted KeyUnusable, and what the key's Secret raises, come through too.
        """

    def close(self) -> None:
        """Close the connection now, in any step; `run` then returns with Fault.ABANDONED, `crossed` or not.

        A `Line.cross` under way is waited for, and nothing is sent after it.
        """


class HttpWire(Protocol):
    """A way to reach HTTP targets."""

    def exchange(
        self,
        request: PreparedRequest,
        *,
        line: Line,
        sink: BodySink,
        allow: AddressCheck,
        limits: SetupLimits,
        deadline: float,
        close_completes: bool = False,
        tls: TlsTerms | None = None,
        proxy: ProxyRoute | None = None,
        reuse: str | None = None,
    ) -> Exchange:
        """Prepare one exchange. Raises ValueError for one that cannot be sent; the error names no value.

        `deadline` is the loop's time at which set-up must stop; after the line the engine keeps the clock.
        `close_completes`: the contract lets a plain FIN end the body. `proxy`: for https alone.

        `reuse` names, opaquely, whose connections may serve this exchange and take in its own afterwards: a key made
        of the origin, the credential's version and what TLS and proxy go by. For reads only; None: a fresh connection
        that serves nobody else.
        """

    def close_idle(self) -> None:
        """Close every connection kept for reuse, and keep none of those now in use: at lock and quit."""
