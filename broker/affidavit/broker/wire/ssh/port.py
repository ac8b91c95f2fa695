"""What the SSH wire and the engine say to each other about one command.

As in the HTTP wire's port: the engine hands over a request and a `Line`, the wire reports facts and no verdicts. Order
of calls on the line, all on the broker's loop: `cross` once, when host, login, channel and environment are done and
before the exec message leaves (R19, R26); `response_started(None, ())` with the peer's reply to it; `request_sent` once
command and stdin are handed over, and never if the command ends before it has read all. Output goes to the sink as it
comes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, Self

from affidavit.broker.secret import Secret
from affidavit.broker.wire.port import AddressCheck, Connection, Fault, Line, SetupStop

COMMAND_BYTES = 32_000
"""The longest command that goes out; OpenSSH's own packets hold little more (interface, section 7)."""


@dataclass(frozen=True, slots=True)
class HostKey:
    """A public key as SSH carries it (RFC 4253, 6.6)."""

    algorithm: str
    """The key's type, which its blob begins with: `ssh-ed25519`, `ecdsa-sha2-nistp256`, `ssh-rsa`, ..."""
    blob: bytes = field(repr=False)

    @classmethod
    def of(cls, blob: bytes) -> Self:
        """The key with this blob. Raises ValueError for bytes that do not begin with a name."""
        length = int.from_bytes(blob[:4], "big")
        name = blob[4 : 4 + length]
        if len(blob) <= 4 + length or not 0 < length <= 64 or not name.isascii():
            raise ValueError("not an SSH public key")
        return cls(name.decode("ascii"), blob)

    @property
    def identity(self) -> str:
        """As `Connection.identity` has it."""
        return f"sha256:{hashlib.sha256(self.blob).hexdigest()}"

    @property
    def line(self) -> str:
        """Kind and blob as in `known_hosts` and `authorized_keys`: `ssh-ed25519 AAAA...`."""
        return f"{self.algorithm} {base64.b64encode(self.blob).decode()}"

    @property
    def fingerprint(self) -> str:
        """As OpenSSH prints it: `SHA256:` and base64 without its padding."""
        return f"SHA256:{base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip('=')}"


@dataclass(frozen=True, slots=True, eq=False)
class KeyLogin:
    """Log in with a private key. The secrets are lent when set-up begins, before anything is attempted."""

    key: Secret
    """The key's file: OpenSSH or PEM."""
    passphrase: Secret | None = None
    certificate: bytes | None = None
    """An OpenSSH user certificate for that key, as its `-cert.pub` file has it."""


@dataclass(frozen=True, slots=True, eq=False)
class PasswordLogin:
    """Log in with a password (RFC 4252, 8)."""

    password: Secret


@dataclass(frozen=True, slots=True, eq=False)
class InteractiveLogin:
    """Log in by answering one hidden prompt with a password (RFC 4256). Another prompt is another factor."""

    password: Secret


Login = KeyLogin | PasswordLogin | InteractiveLogin


@dataclass(frozen=True, slots=True, eq=False)
class SshHop:
    """One SSH server on the way, the last of which runs the command. Operator's data."""

    host: str
    """An A-label name or a literal, IPv6 without brackets. Behind a jump host, as that host resolves it."""
    port: int
    user: str
    host_keys: tuple[HostKey, ...]
    """The keys pinned for it. Only the algorithm of the one that `algorithms.pinned` picks is spoken; with none, set-up
    stops at HOST_KEY_UNKNOWN. A new host is learnt by a probe and pinned, never accepted on the way."""
    login: Login | None
    """None of a host that is only probed."""

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, eq=False)
class SshRequest:
    """One command with all that goes with it: still not attempted (R13). The repr names no value."""

    target: SshHop
    command: bytes = field(repr=False)
    stdin: bytes | AsyncIterable[bytes] = field(default=b"", repr=False)
    """A stream that raises StdinBroken is not ended towards the command: a part never passes for the whole. The command
    is left `close_grace_s` later; to many it looks like an end then, so whoever raises it has them end before."""
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    jumps: tuple[SshHop, ...] = ()
    """Jump hosts in the order in which they are passed."""
    ready: Callable[[], Awaitable[None]] | None = None
    """Awaited once channel and environment are set, before the last look at them: what goes on from there needs
    somebody else. What it raises comes through, and nothing was sent."""


class StdinBroken(Exception):
    """Raised by a stdin stream whose source is gone before its end."""


class KeyFault(StrEnum):
    """Why a private key or certificate cannot be used."""

    MALFORMED = "malformed"
    KIND = "kind"
    """Not Ed25519, ECDSA on a NIST curve, or RSA of 2048 to 16384 bits."""
    PASSPHRASE_NEEDED = "passphrase_needed"  # noqa: S105 - a fault
    PASSPHRASE_WRONG = "passphrase_wrong"  # noqa: S105 - a fault
    CERTIFICATE = "certificate"
    """Not an OpenSSH user certificate, or one for another key."""


class SshKeyUnusable(Exception):
    """A login's key cannot be used. Nothing was attempted; the error names no value."""

    def __init__(self, fault: KeyFault) -> None:
        super().__init__(fault.value)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class SshLimits:
    """Each stage's own limit, and what is waited for after the line. In seconds."""

    dns_s: float = 5.0
    tcp_connect_s: float = 10.0
    stage_s: float = 15.0
    """For each SSH stage of each hop."""
    close_grace_s: float = 2.0
    """For CLOSE after exit result and EOF, and for CLOSE after a refused exec."""
    keepalive_s: float = 15.0
    """Silence after which the peer is asked for a sign of life. OpenSSH's default is never (ServerAliveInterval 0)."""
    keepalive_answer_s: float = 30.0
    """Further silence after which the peer is held dead."""


class Stream(StrEnum):
    """What a command writes to."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class ExitSignal:
    """The signal that ended a command (RFC 4254, 6.10)."""

    name: str
    """Without SIG: `TERM`, `SEGV`; at most 64 ASCII characters."""
    core_dumped: bool
    message: str
    """The peer's own words, at most 1024 characters."""


@dataclass(frozen=True, slots=True)
class SshEvidence:
    """What is known of one command: a snapshot that may be taken at any moment, and the final word of `run`.

    `stopped` is set only if the line was not crossed. After it, `fault` and `complete` exclude each other, and both
    unset means that the exchange still runs. A fault beside an exit result means that the output is cut.
    """

    crossed: bool = False
    stopped: SetupStop | None = None
    connection: Connection | None = None
    command_sent: bool = False
    """The exec message was handed to the transport."""
    stdin_bytes: int = 0
    """How much of stdin was handed over."""
    stdin_complete: bool = False
    """All of it, and its end."""
    stdin_broken: bool = False
    """Its source was gone before its end. The command is soon left then."""
    stdin_sha256: str | None = None
    """Of what of a stream was handed over, in hex."""
    exec_accepted: bool = False
    exec_refused: bool = False
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    exit_status: int | None = None
    exit_signal: ExitSignal | None = None
    eof: bool = False
    """Both output streams ended in order."""
    closed: bool = False
    """The peer closed the channel."""
    violation: str | None = None
    """What the peer sent against itself or the protocol, in a short English phrase. Nothing after it is looked at."""
    complete: bool = False
    """The exec was refused and nothing else said, or the exit result is known and both streams ended."""
    completion: str | None = None
    """`exit+eof+close`, `signal+eof+close`; without `+close` if CLOSE stayed out; or `refused`."""
    fault: Fault | None = None
    observation: str | None = None
    """A short English phrase for `transport_observation`."""

    @property
    def exited(self) -> bool:
        """The command's exit status or signal is known."""
        return self.exit_status is not None or self.exit_signal is not None

    @property
    def request_complete(self) -> bool:
        return self.command_sent and self.stdin_complete

    @property
    def answered(self) -> bool:
        """Anything of an answer was seen: a reply to exec, output, or the command's end."""
        return (
            self.exec_accepted
            or self.exec_refused
            or self.exited
            or self.stdout_bytes > 0
            or self.stderr_bytes > 0
            or self.violation is not None
        )


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe of a host learnt: its key, or where the probe stopped."""

    host_key: HostKey | None = None
    peer: str | None = None
    """As `Connection.peer` has it."""
    stopped: SetupStop | None = None


class SshSink(Protocol):
    """Takes output as it arrives, at most 256 KiB at a time. Awaiting it is the back-pressure on both streams."""

    async def write(self, stream: Stream, data: bytes) -> None: ...


class SshExchange(Protocol):
    """One set-up try and, if it reaches the line, one dispatch."""

    @property
    def evidence(self) -> SshEvidence:
        """What is known at this moment."""

    async def run(self) -> SshEvidence:
        """Drive the exchange to its end, called once. Remote faults are evidence.

        What `Line.cross`, the sink or the stdin stream raises comes through, and the connection is closed; before
        anything is attempted SshKeyUnusable, and what the login's Secret raises, come through too.
        """

    def close(self) -> None:
        """Close the connection now, in any step; `run` then returns with Fault.ABANDONED, `crossed` or not.

        A `Line.cross` under way is waited for, and nothing is sent after it. The command is not stopped by this.
        """

    def signal(self, name: str) -> bool:
        """Send the command a signal such as `TERM` (RFC 4254, 6.9); False if none can be sent now.

        It proves nothing: the peer gives no reply. Raises ValueError for a malformed name.
        """


class SshWire(Protocol):
    """A way to reach SSH targets."""

    def exchange(
        self,
        request: SshRequest,
        *,
        line: Line,
        sink: SshSink,
        allow: AddressCheck,
        limits: SshLimits,
        deadline: float,
        reuse: str | None = None,
    ) -> SshExchange:
        """Prepare one exchange. Raises ValueError for one that cannot be sent; the error names no value.

        `deadline` is the loop's time at which set-up must stop; after the line the engine keeps the clock. `allow`
        sees the addresses of the first hop alone: those behind a jump host are resolved there.

        `reuse` names, opaquely, whose transports may serve this exchange and take in its own afterwards: a key made of
        the host entries and credential versions of the whole way. For reads and known-idempotent commands; None: a
        fresh transport that serves nobody else.
        """

    async def probe(
        self,
        target: SshHop,
        *,
        allow: AddressCheck,
        limits: SshLimits,
        deadline: float,
        jumps: tuple[SshHop, ...] = (),
    ) -> Probed:
        """Learn the target's host key and stop before its login; its pins are not looked at. Jump hosts are logged in
        to, with all their checks."""

    def close_idle(self) -> None:
        """Close every transport kept for reuse, and keep none of those now in use: at lock and quit."""
