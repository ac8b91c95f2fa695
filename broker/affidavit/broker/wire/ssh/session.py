"""One SSH transport: paramiko's packets, keys and login, and channels of our own on top.

Theory of operation. paramiko runs one thread for each transport; it reads, decrypts, does the key exchange and hands
every message to a handler. Here those handlers only note what came, in the channel that it came on or in the session's
own facts, and wake the loop. Everything else is done on the loop: it looks at the facts, decides, and sends. Sending
never waits (see `pipe`); while keys are exchanged, what is to be sent waits in order in `_outbox`. So there is no
waiting in a thread that a deadline could not reach: to end a session is to close its pipe.

paramiko's own channels are not used: they wait without limit, drop messages in silence, and read what is cut as zeros.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import paramiko
from paramiko.common import (
    MSG_CHANNEL_REQUEST,
    MSG_NAMES,
    MSG_REQUEST_FAILURE,
    MSG_REQUEST_SUCCESS,
    cMSG_CHANNEL_OPEN,
    cMSG_GLOBAL_REQUEST,
    cMSG_UNIMPLEMENTED,
)
from paramiko.packet import Packetizer

from affidavit.broker.wire.ssh import algorithms
from affidavit.broker.wire.ssh.channel import PACKET, WINDOW, Channel, Kind
from affidavit.broker.wire.ssh.fields import Fields, shortened, string, uint32
from affidavit.broker.wire.ssh.login import LoginHandler, Result
from affidavit.broker.wire.ssh.pipe import Pipe
from affidavit.broker.wire.ssh.port import HostKey

VERSION_LINE = 255
"""The longest version line (RFC 4253, 4.2)."""
BEFORE_VERSION = 32 * 1024
"""Bytes of other lines before it. OpenSSH takes 1024 lines."""

NO_MORE_AUTH_METHODS = 14
"""SSH_DISCONNECT_NO_MORE_AUTH_METHODS_AVAILABLE (RFC 4253, 11.1)."""

_EXEC = string(b"exec")


class End(StrEnum):
    """Why a session is over."""

    CLOSED = "closed"
    """The peer closed the stream in order."""
    RESET = "reset"
    DISCONNECT = "disconnect"
    """The peer said so (SSH_MSG_DISCONNECT)."""
    GARBLED = "garbled"
    VERSION = "version"
    """Another protocol version."""
    ALGORITHMS = "algorithms"
    """Nothing in common."""
    KEY_NOT_OFFERED = "key_not_offered"
    """The host has no key of the pinned kind."""
    DEAF = "deaf"
    """Cut off: the peer makes us answer and reads none of it."""
    HERE = "here"
    """Closed by the broker."""


_ENDINGS = {"EOF": End.CLOSED, "ENOBUFS": End.DEAF}
"""How a pipe ended -> why the session is over; any other code is a reset."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a session ended."""

    end: End
    system: str
    """A code: EOF, ECONNRESET, SSH_DISCONNECT_2, SSH_PACKET, SSH_VERSION, ..."""
    detail: str = ""
    """For the sealed diagnosis, or the peer's own words of farewell."""
    reason: int | None = None
    """The number in SSH_MSG_DISCONNECT."""


class _Refused(Exception):
    """The key exchange is broken off; `ended` says why."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.system)
        self.ended = ended


class _Packets(Packetizer):  # type: ignore[misc]
    """Packets without a log, and without a timer of their own, which would outlive a session by 15 s."""

    def start_handshake(self, timeout: float) -> None:
        pass

    def _log(self, level: int, msg: object) -> None:
        pass


class Session(paramiko.Transport):  # type: ignore[misc]
    """A transport to one peer. Owned by the loop; the attributes below are written by paramiko's thread alone, each
    once, and may be read at any time."""

    _CLIENT_ID = "Affidavit"
    _preferred_kex = tuple(name for name in algorithms.KEX if name in paramiko.Transport._kex_info)
    _preferred_ciphers = algorithms.CIPHERS
    _preferred_macs = algorithms.MACS
    _preferred_pubkeys = algorithms.ALL_SIGNATURES
    _preferred_compression = ("none",)

    def __init__(self, pipe: Pipe, host_key_algorithms: tuple[str, ...], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(pipe, default_window_size=WINDOW, default_max_packet_size=PACKET, packetizer_class=_Packets)
        self.name = "affidavit-ssh"
        self.pipe = pipe
        pipe.drained = self.wake
        self.spoken: str | None = None
        """The peer's version line."""
        self.shown: HostKey | None = None
        """The key that the peer has proven to hold, known with `keyed`."""
        self.keyed = False
        """The first key exchange is done."""
        self.result: Result | None = None
        """Of the login."""
        self.ended: Ended | None = None
        """Set once no more messages come."""
        self.listeners: list[Callable[[], None]] = []
        """Called on the loop whenever something may have changed."""
        self._loop = loop
        self._host_key_algorithms = host_key_algorithms
        self._farewell: Ended | None = None
        self._channels_by_number: dict[int, Channel] = {}
        self._numbers = 0
        self._outbox: deque[bytes] = deque()
        self._armed = False
        self._left = False
        """Ended from here."""
        self._waking = False
        self._waiters: set[asyncio.Future[None]] = set()
        self._handler_table |= {int(kind): self._channel_handler(kind) for kind in Kind}
        self._handler_table |= {
            kind: lambda message: self._tell() for kind in (MSG_REQUEST_SUCCESS, MSG_REQUEST_FAILURE)
        }
        self._handler_table |= dict.fromkeys(set(range(1, 256)) - MSG_NAMES.keys(), self._unimplemented)

    # -- on the loop

    def begin(self) -> None:
        """Start to talk."""
        self.start_client(event=threading.Event())

    async def until(self, ready: Callable[[], bool]) -> None:
        """Return once `ready`, or once the session is over."""
        while not (ready() or self.ended is not None):
            await self.change()

    async def change(self) -> None:
        """Return when something may have changed since the facts were last looked at."""
        waiter = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    @property
    def clear(self) -> bool:
        """Whether a message would go now: none waits before it, and no keys are being exchanged."""
        return not self._outbox and self.active and bool(self.clear_to_send.is_set())

    @property
    def exchanging_keys(self) -> bool:
        return self.active and not self.clear_to_send.is_set()

    @property
    def silent_s(self) -> float:
        """How long nothing has come."""
        return time.monotonic() - self.pipe.last_received

    def login(self, begin: Callable[[LoginHandler], None]) -> None:
        """Start the one login; `result` will tell."""
        self.auth_handler = LoginHandler(self, post=self._post, told=self._logged_in)
        begin(self.auth_handler)

    def forget_login(self) -> None:
        """Let go of the secret, whatever came of the login."""
        self.auth_handler.forget()

    def open(self, channel: Channel, kind: bytes, target: bytes = b"") -> None:
        """Ask for a channel; `target` are the request's own fields."""
        channel.number = self._numbers
        self._numbers += 1
        self._channels_by_number[channel.number] = channel
        self._post(cMSG_CHANNEL_OPEN + string(kind) + uint32(channel.number) + uint32(WINDOW) + uint32(PACKET) + target)

    def send(self, channel: Channel, kind: Kind, fields: bytes = b"") -> None:
        """Send a channel's message, at once or as soon as new keys are agreed on."""
        assert channel.peer is not None
        self._post(bytes([kind]) + uint32(channel.peer) + fields)

    def execute(self, channel: Channel, command: bytes) -> None:
        """Send the exec message, the one message that has an effect; `executed` tells when it has gone.

        No other way leads to it: `_send_message` lets no such message pass that was not armed here.
        """
        self._armed = True
        self.send(channel, Kind.REQUEST, _EXEC + b"\1" + string(command))

    @property
    def executed(self) -> bool:
        """No exec message waits."""
        return not self._armed

    def consumed(self, channel: Channel, count: int) -> None:
        """Let the peer send `count` more bytes."""
        channel.grant(count)
        self.send(channel, Kind.WINDOW_ADJUST, uint32(count))

    def close_channel(self, channel: Channel) -> None:
        """Close it from this side, once; what still comes on it is dropped if the peer has closed it too."""
        if not channel.dismissed:
            channel.dismissed = True
            self.send(channel, Kind.CLOSE)
        if channel.closed:
            self._channels_by_number.pop(channel.number, None)

    def heard_since(self, at: float) -> bool:
        """Whether anything has come since that moment, as `ping` gives it."""
        return self.pipe.last_received > at

    def ping(self) -> float:
        """Ask for a sign of life: any answer, a refusal too, is one. Returns the moment."""
        asked_at = time.monotonic()
        self._post(cMSG_GLOBAL_REQUEST + string(b"keepalive@openssh.com") + b"\1")
        return asked_at

    def end(self) -> None:
        """Close the connection now. From the loop; may be repeated."""
        self._left = True
        self.pipe.release()
        if self.ident is None:
            self.pipe.stop_reading()  # No thread was started that would.
        self.wake()

    def _post(self, message: bytes) -> None:
        self._outbox.append(message)
        self._send_waiting()

    def _send_waiting(self) -> None:
        """Send what waits. The lock keeps paramiko's thread from beginning a key exchange in between; that thread
        never holds it while it waits for anything."""
        if not self._outbox:
            return
        with self.clear_to_send_lock:
            try:
                while self._outbox and self.active and self.clear_to_send.is_set():
                    self._send_message(paramiko.Message(self._outbox.popleft()))
            except EOFError:
                self._outbox.clear()  # The pipe is closed, or the peer does not read.
                self.pipe.close()

    def wake(self) -> None:
        """Send what may go now, and let everyone who waits look again. On the loop."""
        self._waking = False
        self._send_waiting()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        for listener in self.listeners:
            listener()

    def _finish(self) -> None:
        self.pipe.release()
        self.wake()

    # -- in paramiko's thread

    def run(self) -> None:
        """The thread's whole life. What it meets is noted, never raised."""
        try:
            super().run()
        finally:
            self.pipe.stop_reading()
            self.ended = self._how_ended()
            for channel in list(self._channels_by_number.values()):
                channel.lost()
            try:
                self._loop.call_soon_threadsafe(self._finish)
            except RuntimeError:
                pass  # The loop has ended.

    def _how_ended(self) -> Ended:
        if self._farewell is not None:
            return self._farewell
        error = self.saved_exception
        if isinstance(error, _Refused):
            return error.ended
        ending = self.pipe.ending
        if error is None or isinstance(error, EOFError | OSError):
            if self._left or ending is None:
                return Ended(End.HERE, "ECANCELED")
            return Ended(_ENDINGS.get(ending, End.RESET), ending)
        if isinstance(error, paramiko.IncompatiblePeer):
            return Ended(End.ALGORITHMS, "SSH_ALGORITHMS", str(error))
        return Ended(End.GARBLED, "SSH_PACKET", shortened(f"{type(error).__name__}: {error}", 500))

    def _tell(self) -> None:
        """Wake the loop; many messages, one wake."""
        if self._waking:
            return
        self._waking = True
        try:
            self._loop.call_soon_threadsafe(self.wake)
        except RuntimeError:
            pass  # The loop has ended.

    def _channel_handler(self, kind: Kind) -> Callable[[paramiko.Message], None]:
        def handle(message: paramiko.Message) -> None:
            fields = Fields(message.asbytes())
            number = fields.uint32()
            channel = self._channels_by_number.get(number)
            if channel is None:
                if number >= self._numbers:
                    raise paramiko.SSHException("a message for a channel that was never asked for")
                return
            channel.take(kind, fields)
            self._tell()

        return handle

    def _unimplemented(self, message: paramiko.Message) -> None:
        """Answer a message of a kind that has no name here, and go on (RFC 4253, 11.4). paramiko would fail on it."""
        self._send_message(paramiko.Message(cMSG_UNIMPLEMENTED + uint32(message.seqno)))

    def _logged_in(self, result: Result) -> None:
        if self.result is None:
            self.result = result
            self._tell()

    # paramiko's own steps, from here on

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        """Without host certificates, which paramiko would offer too."""
        return self._host_key_algorithms

    def _send_message(self, data: paramiko.Message) -> None:
        message = data.asbytes()
        if message[0] == MSG_CHANNEL_REQUEST and message[5 : 5 + len(_EXEC)] == _EXEC:
            if not self._armed:
                raise RuntimeError("an exec message that did not cross the line")
            super()._send_message(data)
            self._armed = False
        else:
            super()._send_message(data)

    def _check_banner(self) -> None:
        """Read the version line, and bounded lines before it (RFC 4253, 4.2)."""
        left = BEFORE_VERSION
        while left > 0:
            line = self._read_line(left)
            left -= len(line)
            if line.startswith(b"SSH-"):
                break
        else:
            raise paramiko.SSHException("no version line")
        if not line.startswith((b"SSH-2.0-", b"SSH-1.99-")):
            version = line[4:].split(b"-")[0][:20].decode("ascii", "replace")
            raise _Refused(Ended(End.VERSION, "SSH_VERSION", version))
        self.remote_version = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
        self.spoken = self.remote_version
        self._tell()

    def _read_line(self, longest: int) -> bytes:
        line = bytearray()
        while not line.endswith(b"\n"):
            if len(line) >= longest:
                raise paramiko.SSHException("an endless line before the version")
            try:
                part = self.pipe.recv(1)
            except TimeoutError:
                if self.pipe.closed:
                    raise EOFError from None
                continue
            if not part:
                raise EOFError
            line += part
        if line.startswith(b"SSH-") and len(line) > VERSION_LINE:
            raise paramiko.SSHException("the version line is too long")
        return bytes(line)

    def _parse_kex_init(self, m: paramiko.Message) -> None:
        offered = self._really_parse_kex_init(paramiko.Message(m.asbytes()))["server_key_algo_list"]
        if not set(offered) & set(self._host_key_algorithms):
            kinds = shortened(",".join(offered), 300)
            raise _Refused(Ended(End.KEY_NOT_OFFERED, "HOST_KEY_NOT_OFFERED", kinds))
        super()._parse_kex_init(m)

    def _verify_key(self, host_key: bytes, sig: bytes) -> None:
        """The signature is checked by paramiko, the key itself by whoever set this session up; it stays the same."""
        super()._verify_key(host_key, sig)
        key = HostKey.of(bytes(host_key))
        if self.shown is not None and self.shown != key:
            raise paramiko.SSHException("another host key in a later key exchange")
        self.shown = key

    def _parse_newkeys(self, m: paramiko.Message) -> None:
        super()._parse_newkeys(m)
        self.keyed = True
        self._tell()

    def _parse_ext_info(self, msg: paramiko.Message) -> None:
        """Signature algorithms for the login (RFC 8308). Read strictly: paramiko counts to what the peer says."""
        fields = Fields(msg.asbytes())
        for _ in range(fields.uint32()):
            name, value = bytes(fields.string()), bytes(fields.string())
            if name == b"server-sig-algs":
                self.server_extensions = {"server-sig-algs": value}

    def _parse_disconnect(self, m: paramiko.Message) -> None:
        fields = Fields(m.asbytes())
        reason, text = fields.uint32(), fields.text(200)
        self._farewell = Ended(End.DISCONNECT, f"SSH_DISCONNECT_{reason}", text, reason)

    def _log(self, level: int, msg: object, *args: object) -> None:
        """Nothing is logged: what matters is a fact above, and the rest is the peer's."""
