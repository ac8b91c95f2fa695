"""A hostile SSH server on loopback: plays a script on each connection, in a thread of its own.

paramiko's server side does version, keys and login where a script asks for them; every channel message is the script's
to read and to make, byte by byte. It needs no event loop: tests that have one use `async with`.
"""

from __future__ import annotations

import asyncio
import queue
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import paramiko
from paramiko.common import MSG_CHANNEL_OPEN, MSG_GLOBAL_REQUEST, MSG_KEXINIT, MSG_REQUEST_FAILURE

from affidavit.broker.secret import Secret
from affidavit.broker.wire.ssh.channel import Kind
from affidavit.broker.wire.ssh.fields import Fields, string, uint32
from affidavit.broker.wire.ssh.port import HostKey, Login, PasswordLogin, SshHop

BOUND_S = 20.0
PASSWORD = b"a password for tests"
NUMBER = 7
"""The peer's number for the channel."""
WINDOW = 2 * 1024 * 1024

Script = Callable[["Call"], None]


class Over(Exception):
    """The test or the connection is over: the script ends."""


class Access(paramiko.ServerInterface):
    """Lets in by PASSWORD, by any key, and by the answer PASSWORD; or as a test says."""

    methods = "password,publickey,keyboard-interactive"
    by_password = paramiko.AUTH_SUCCESSFUL
    by_key = paramiko.AUTH_SUCCESSFUL
    prompts: tuple[tuple[tuple[str, bool], ...], ...] = ((("Password: ", False),),)
    """Rounds of prompts; the last one's answers decide."""

    def __init__(self) -> None:
        self.answers: list[list[str]] = []
        self.keys: list[paramiko.PKey] = []

    def get_allowed_auths(self, username: str) -> str:
        return self.methods

    def check_auth_password(self, username: str, password: str) -> int:
        return self.by_password if password.encode() == PASSWORD else paramiko.AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.keys.append(key)
        return self.by_key

    def check_auth_interactive(self, username: str, submethods: str) -> Any:
        return self._query()

    def check_auth_interactive_response(self, responses: list[str]) -> Any:
        self.answers.append(list(responses))
        if len(self.answers) < len(self.prompts):
            return self._query()
        asked = [text for prompts in self.prompts for text, _ in prompts]
        given = [answer for answers in self.answers for answer in answers]
        right = given == [PASSWORD.decode()] * len(asked)
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def _query(self) -> paramiko.InteractiveQuery:
        query = paramiko.InteractiveQuery()
        for text, echo in self.prompts[len(self.answers)]:
            query.add_prompt(text, echo)
        return query


class _ServerSide(paramiko.Transport):  # type: ignore[misc]
    """Keys and login by paramiko; what comes after them goes to the script."""

    def __init__(self, sock: socket.socket, said: queue.Queue[tuple[int, bytes]]) -> None:
        super().__init__(sock)
        self.daemon = True
        kinds = {MSG_CHANNEL_OPEN, MSG_GLOBAL_REQUEST, MSG_REQUEST_FAILURE, *(int(kind) for kind in Kind)}
        self._handler_table |= {kind: self._noting(kind, said) for kind in kinds}
        self._said = said

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._said.put((0, b""))

    def _noting(self, kind: int, said: queue.Queue[tuple[int, bytes]]) -> Callable[[paramiko.Message], None]:
        return lambda message: said.put((kind, message.asbytes()))

    def _log(self, level: int, msg: object, *args: object) -> None:
        pass


class Call:
    """One connection, from the peer's side."""

    def __init__(self, sock: socket.socket, peer: Peer) -> None:
        self.sock = sock
        self.transport: _ServerSide | None = None
        self.said: list[tuple[int, bytes]] = []
        """Every message after the login, in order."""
        self.client: int | None = None
        """The client's number for its channel."""
        self.client_window = 0
        self.over = threading.Event()
        """The script has ended."""
        self._peer = peer
        self._messages: queue.Queue[tuple[int, bytes]] = queue.Queue()
        self._let_go = threading.Event()

    @property
    def commands(self) -> list[bytes]:
        """Every exec request that came, once the connection is over, whether or not the script read it."""
        while not self._messages.empty():
            self.said.append(self._messages.get())
        requests = (Fields(payload) for kind, payload in self.said if kind == Kind.REQUEST)
        return [command for fields in requests if (command := _command(fields)) is not None]

    # -- up to the channel

    def shake(self) -> None:
        """Version and keys; the login is answered by the peer's access whenever it comes."""
        self.transport = _ServerSide(self.sock, self._messages)
        for key in self._peer.host_keys:
            self.transport.add_server_key(key)
        try:
            self.transport.start_server(server=self._peer.access)
        except (paramiko.SSHException, EOFError) as error:
            raise Over from error

    def open(self) -> None:
        """All up to an open session channel."""
        self.shake()
        self.expect_open()
        self.confirm()

    def expect_open(self) -> bytes:
        """The client's request for a channel; its kind."""
        fields = Fields(self.expect(MSG_CHANNEL_OPEN))
        kind = bytes(fields.string())
        self.client, self.client_window = fields.uint32(), fields.uint32()
        return kind

    def confirm(self, *, window: int = WINDOW, packet: int = 32768) -> None:
        self.send(Kind.OPEN_CONFIRMATION, uint32(NUMBER) + uint32(window) + uint32(packet))

    def refuse(self, reason: int) -> None:
        self.send(Kind.OPEN_FAILURE, uint32(reason) + string(b"said no") + string(b"en"))

    # -- requests

    def expect_exec(self) -> bytes:
        """The command, once asked for."""
        fields = self.expect_request(b"exec")
        return bytes(fields.string())

    def expect_request(self, name: bytes) -> Fields:
        """The next channel request, past its want-reply, which `wanted_reply` keeps."""
        fields = Fields(self.expect(Kind.REQUEST))
        assert fields.uint32() == NUMBER
        assert bytes(fields.string()) == name
        self.wanted_reply = fields.boolean()
        return fields

    def accept(self) -> None:
        """All up to a command that runs."""
        self.open()
        self.expect_exec()
        self.send(Kind.SUCCESS)

    # -- messages

    def expect(self, kind: int) -> bytes:
        """The next message of this kind; those before it are passed over."""
        while True:
            got, payload = self.next()
            if got == kind:
                return payload

    def next(self) -> tuple[int, bytes]:
        got, payload = self._messages.get(timeout=BOUND_S)
        if got == 0:
            raise Over
        self.said.append((got, payload))
        return got, payload

    def send(self, kind: int, fields: bytes = b"") -> None:
        """A channel's message, to the client's number."""
        assert self.client is not None
        self.send_raw(bytes([kind]) + uint32(self.client) + fields)

    def send_raw(self, message: bytes) -> None:
        assert self.transport is not None
        try:
            self.transport._send_message(paramiko.Message(message))
        except EOFError as error:
            raise Over from error

    def data(self, data: bytes) -> None:
        self.send(Kind.DATA, string(data))

    def stderr(self, data: bytes) -> None:
        self.send(Kind.EXTENDED_DATA, uint32(1) + string(data))

    def status(self, status: int) -> None:
        self.request(b"exit-status", uint32(status))

    def request(self, name: bytes, fields: bytes = b"", *, wants_reply: bool = False) -> None:
        self.send(Kind.REQUEST, string(name) + bytes([wants_reply]) + fields)

    def new_keys(self) -> None:
        """Agree on new keys, all of it."""
        assert self.transport is not None
        self.transport.renegotiate_keys()

    def begin_keys_and_stall(self) -> None:
        """Ask for new keys, and do nothing about them any more."""
        assert self.transport is not None
        self.transport._handler_table |= dict.fromkeys((MSG_KEXINIT, *range(30, 42)), _nothing)
        self.transport._send_kex_init()
        self.transport._expected_packet = ()

    # -- the connection

    def garbage(self, count: int = 256) -> None:
        """Bytes that are no packet."""
        self._raw(b"\x5a" * count)

    def raw(self, data: bytes) -> None:
        """Send beneath SSH."""
        self._raw(data)

    def fin(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def hold(self) -> None:
        """Do nothing until the client is gone or this is let go."""
        while not self._let_go.is_set():
            if self.transport is None:
                self._let_go.wait(BOUND_S)
            else:
                self.next()

    def let_go(self) -> None:
        """End what the script waits for. From the test's thread."""
        self._let_go.set()
        self._messages.put((0, b""))

    def _raw(self, data: bytes) -> None:
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise Over from error


def _nothing(message: object) -> None:
    """This message is left unanswered."""


def _command(request: Fields) -> bytes | None:
    request.uint32()
    if bytes(request.string()) != b"exec":
        return None
    request.boolean()
    return bytes(request.string())


class Peer:
    """Listens on loopback from `with`, or `async with`, to its end. `calls` are its connections in order."""

    def __init__(
        self,
        script: Script,
        *,
        access: Access | None = None,
        host_keys: tuple[paramiko.PKey, ...] = (),
        rcvbuf: int | None = None,
    ) -> None:
        self.script = script
        self.access = access or Access()
        self.host_keys = host_keys or (HOST_KEY,)
        self.calls: list[Call] = []
        self.failures: list[BaseException] = []
        self.release = threading.Event()
        self.port = 0
        self._rcvbuf = rcvbuf
        self._threads: list[threading.Thread] = []
        self._called = threading.Condition()

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        if self._rcvbuf is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._rcvbuf)
        self.port = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(BOUND_S)
        assert not self._accepting.is_alive()
        self.part()
        if kind is None and self.failures:
            raise self.failures[0]

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def part(self) -> None:
        """End every connection that there is, and wait for the end of each."""
        self.release.set()
        for call in self.calls:
            call.let_go()
        for thread in self._threads:
            thread.join(BOUND_S)
            assert not thread.is_alive()
        for call in self.calls:
            if call.transport is not None:
                call.transport.join(BOUND_S)

    def play(self, script: Script, *, access: Access | None = None) -> None:
        """Another script from the next connection on; what was there before is forgotten."""
        self.part()
        self.calls, self._threads = [], []
        self.release.clear()
        self.script, self.access = script, access or Access()

    def hop(self, *, login: Login | None = None, host_keys: tuple[HostKey, ...] | None = None) -> SshHop:
        pins = (HostKey.of(self.host_keys[0].asbytes()),) if host_keys is None else host_keys
        return SshHop("127.0.0.1", self.port, "someone", pins, login or PasswordLogin(Secret(PASSWORD)))

    async def call(self, index: int = 0) -> Call:
        """The connection of that number, once it was accepted."""

        def wait() -> Call:
            with self._called:
                assert self._called.wait_for(lambda: len(self.calls) > index, BOUND_S)
            return self.calls[index]

        return await asyncio.to_thread(wait)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            call = Call(sock, self)
            thread = threading.Thread(target=self._play, args=(call,), daemon=True)
            self._threads.append(thread)
            with self._called:
                self.calls.append(call)
                self._called.notify_all()
            thread.start()

    def _play(self, call: Call) -> None:
        try:
            self.script(call)
        except (Over, OSError):
            pass  # The client left first: as the test wants it.
        except BaseException as error:
            self.failures.append(error)
        finally:
            if call.transport is not None:
                call.transport.close()
            call.sock.close()
            call.over.set()


HOST_KEY = paramiko.ECDSAKey.generate(bits=256)
OTHER_KEY = paramiko.ECDSAKey.generate(bits=256)
