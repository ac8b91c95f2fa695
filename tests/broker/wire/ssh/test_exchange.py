"""The exchange as the engine drives it: its order, its ends from this side, and what comes through it."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from tests.broker.wire.driver import BOUND_S, ToldLine, turns
from tests.broker.wire.ssh.driver import QUICK, drive
from tests.broker.wire.ssh.peer import PASSWORD, Access, Call, Peer

from affidavit.broker.secret import Secret, SecretWiped
from affidavit.broker.terms import Stage
from affidavit.broker.wire.port import Connection, Fault, SetupFault
from affidavit.broker.wire.ssh import pipe
from affidavit.broker.wire.ssh.channel import Kind
from affidavit.broker.wire.ssh.exchange import ParamikoWire
from affidavit.broker.wire.ssh.fields import Fields, string, uint32
from affidavit.broker.wire.ssh.idle import Key
from affidavit.broker.wire.ssh.port import (
    InteractiveLogin,
    KeyFault,
    KeyLogin,
    PasswordLogin,
    SshEvidence,
    SshHop,
    SshKeyUnusable,
    StdinBroken,
    Stream,
)


def finish(call: Call, status: int = 0) -> None:
    """An ordinary end; the connection stays, for a client that wants to keep it."""
    call.status(status)
    call.send(Kind.EOF)
    call.send(Kind.CLOSE)


def plain(call: Call) -> None:
    call.accept()
    finish(call)
    call.hold()


def hop(**changes: object) -> SshHop:
    facts: dict[str, object] = {
        "host": "127.0.0.1",
        "port": 1,
        "user": "u",
        "host_keys": (),
        "login": PasswordLogin(Secret(b"x")),
    }
    return SshHop(**(facts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("command", [b"", b"echo\0", b"x" * 32_001])
async def test_s01_to_s03_what_cannot_be_sent(wire: ParamikoWire, command: bytes) -> None:
    with pytest.raises(ValueError, match="command"):
        drive(wire, hop(), command)


@pytest.mark.parametrize(
    "env", [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0"), ("A", "\ud800"), ("A", "x" * 32_000)]
)
async def test_variables_that_cannot_be_sent(wire: ParamikoWire, env: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="variable"):
        drive(wire, hop(), env=(env,))


@pytest.mark.parametrize("changes", [{"host": "exämple.test"}, {"user": "\udcff"}])
async def test_hops_that_cannot_be_reached(wire: ParamikoWire, changes: dict[str, object]) -> None:
    for options in ({"target": hop(**changes)}, {"target": hop(), "jumps": (hop(**changes),)}):
        with pytest.raises(ValueError, match="host"):
            drive(wire, **options)  # type: ignore[arg-type]


async def test_the_line_is_told_in_order_and_on_the_loop(wire: ParamikoWire) -> None:
    threads = set()

    class Line(ToldLine):
        async def cross(self, connection: Connection) -> None:
            threads.add(threading.get_ident())
            assert run.exchange.evidence.connection == connection
            assert not run.exchange.evidence.crossed
            await super().cross(connection)

        def response_started(self, status: int | None, headers: tuple[tuple[str, str], ...]) -> None:
            threads.add(threading.get_ident())
            assert run.exchange.evidence.exec_accepted
            super().response_started(status, headers)

        def request_sent(self, sent: int) -> None:
            threads.add(threading.get_ident())
            super().request_sent(sent)

    def script(call: Call) -> None:
        call.accept()
        assert Fields(call.expect(Kind.DATA)[4:]).string() == b"input"
        call.expect(Kind.EOF)
        call.data(b"out")
        call.expect(0x50)  # a sign of life is asked for only after all that was sent before
        finish(call)
        call.hold()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), b"do it", stdin=b"input", line=Line())
        running = asyncio.ensure_future(run.run())
        await run.until(lambda evidence: evidence.stdin_complete)
        way = run.exchange._way
        assert way is not None
        way.last.ping()
        evidence = await running
    assert evidence.complete
    assert run.line.told == ["cross", "response_started", "request_sent"]
    assert run.line.sent == len(b"do it") + len(b"input")
    assert threads == {threading.get_ident()}


# Ends from this side


async def hold_until_closed(script: Callable[[Call], None], wire: ParamikoWire, **options: object) -> SshEvidence:
    """Close once the peer's script has come to its end, and see `run` return at once."""
    there = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told(call: Call) -> None:
        script(call)
        loop.call_soon_threadsafe(there.set)
        call.hold()

    async with Peer(told) as peer:
        run = drive(wire, peer.hop(), **options)  # type: ignore[arg-type]
        running = asyncio.ensure_future(run.run())
        async with asyncio.timeout(BOUND_S):
            await there.wait()
        run.exchange.close()
        at = time.monotonic()
        evidence = await running
        assert time.monotonic() - at < 0.5
        run.exchange.close()
    assert evidence.fault is Fault.ABANDONED
    assert evidence.stopped is None
    assert not evidence.complete
    return evidence


def version_alone(call: Call) -> None:
    call.raw(b"SSH-2.0-quiet\r\n")


def channel_asked_for(call: Call) -> None:
    call.shake()
    call.expect_open()


def variable_asked_for(call: Call) -> None:
    call.open()
    call.expect_request(b"env")


@pytest.mark.parametrize(
    "script", [lambda call: None, version_alone, Call.shake, channel_asked_for, variable_asked_for]
)
async def test_close_during_set_up(wire: ParamikoWire, script: Callable[[Call], None]) -> None:
    evidence = await hold_until_closed(script, wire, env=(("A", "b"),))
    assert not evidence.crossed


def exec_asked_for(call: Call) -> None:
    call.open()
    call.expect_exec()


def keys_stalled(call: Call) -> None:
    call.accept()
    call.begin_keys_and_stall()


@pytest.mark.parametrize("script", [exec_asked_for, Call.accept, keys_stalled])
async def test_close_after_the_line(wire: ParamikoWire, script: Callable[[Call], None]) -> None:
    evidence = await hold_until_closed(script, wire)
    assert evidence.crossed
    assert evidence.command_sent


async def test_close_while_input_waits_for_a_window(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.expect_open()
        call.confirm(window=10)
        call.expect_exec()
        call.send(Kind.SUCCESS)
        call.expect(Kind.DATA)

    evidence = await hold_until_closed(script, wire, stdin=b"x" * 100)
    assert evidence.stdin_bytes == 10
    assert not evidence.stdin_complete


async def test_close_while_the_sink_takes_nothing(wire: ParamikoWire) -> None:
    class Stuck:
        async def write(self, stream: Stream, data: bytes) -> None:
            stuck.set()
            await asyncio.Event().wait()

    stuck = asyncio.Event()

    def script(call: Call) -> None:
        call.accept()
        call.data(b"x")
        call.hold()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), sink=Stuck())  # type: ignore[arg-type]
        running = asyncio.ensure_future(run.run())
        await stuck.wait()
        run.exchange.close()
        evidence = await running
    assert evidence.fault is Fault.ABANDONED


async def test_close_before_run(wire: ParamikoWire) -> None:
    async with Peer(plain) as peer:
        run = drive(wire, peer.hop())
        run.exchange.close()
        evidence = await run.run()
        assert peer.calls == []
    assert (evidence.crossed, evidence.fault) == (False, Fault.ABANDONED)


async def test_close_at_the_line_is_waited_for_and_nothing_is_sent_after_it(wire: ParamikoWire) -> None:
    calls: list[Call] = []

    def script(call: Call) -> None:
        calls.append(call)
        call.open()
        call.hold()

    durable = asyncio.Event()
    at_line = asyncio.Event()

    async def cross() -> None:
        at_line.set()
        await durable.wait()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), line=ToldLine(cross))
        running = asyncio.ensure_future(run.run())
        await at_line.wait()
        run.exchange.close()
        await asyncio.sleep(0)
        assert not running.done()
        durable.set()
        evidence = await running
    assert evidence.crossed
    assert (evidence.command_sent, evidence.fault) == (False, Fault.ABANDONED)
    assert not [payload for kind, payload in calls[0].said if kind == Kind.REQUEST]


async def test_cancelling_run_closes_the_connection(wire: ParamikoWire) -> None:
    there = asyncio.Event()
    loop = asyncio.get_running_loop()

    def script(call: Call) -> None:
        call.accept()
        loop.call_soon_threadsafe(there.set)
        call.hold()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop())
        running = asyncio.ensure_future(run.run())
        await there.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        call = await peer.call()
        assert await asyncio.to_thread(call.over.wait, BOUND_S)


# What comes through


class Told(Exception):
    pass


async def test_what_the_line_raises(wire: ParamikoWire) -> None:
    calls: list[Call] = []

    def script(call: Call) -> None:
        calls.append(call)
        call.open()
        call.hold()

    async def cross() -> None:
        raise Told

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), line=ToldLine(cross))
        with pytest.raises(Told):
            await run.run()
        assert await asyncio.to_thread(calls[0].over.wait, BOUND_S)
    assert not run.exchange.evidence.crossed
    assert not [payload for kind, payload in calls[0].said if kind == Kind.REQUEST]


async def test_what_the_sink_raises(wire: ParamikoWire) -> None:
    class Full:
        async def write(self, stream: Stream, data: bytes) -> None:
            raise Told

    def script(call: Call) -> None:
        call.accept()
        call.data(b"x")
        call.hold()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), sink=Full())  # type: ignore[arg-type]
        with pytest.raises(Told):
            await run.run()
    assert run.exchange.evidence.fault is Fault.ABANDONED


async def test_a_time_out_of_the_sink_is_its_own(wire: ParamikoWire) -> None:
    class Late:
        async def write(self, stream: Stream, data: bytes) -> None:
            raise TimeoutError("the disk")

    def script(call: Call) -> None:
        call.accept()
        call.data(b"x")
        call.hold()

    async with Peer(script) as peer:
        with pytest.raises(TimeoutError, match="the disk"):
            await drive(wire, peer.hop(), sink=Late()).run()  # type: ignore[arg-type]


async def test_what_the_stdin_stream_raises(wire: ParamikoWire) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        raise Told

    def script(call: Call) -> None:
        call.accept()
        call.hold()

    async with Peer(script) as peer:
        with pytest.raises(Told):
            await drive(wire, peer.hop(), stdin=parts()).run()


async def test_a_stdin_stream_that_breaks_is_not_ended_towards_the_command(wire: ParamikoWire) -> None:
    calls: list[Call] = []
    broken = threading.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"half of the "
        broken.set()
        raise StdinBroken

    def script(call: Call) -> None:
        calls.append(call)
        call.accept()
        call.expect(Kind.DATA)
        broken.wait(BOUND_S)
        finish(call, 4)
        call.hold()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), stdin=parts())
        evidence = await run.run()
    assert (evidence.exit_status, evidence.complete) == (4, True)
    assert (evidence.stdin_bytes, evidence.stdin_broken, evidence.stdin_complete) == (12, True, False)
    assert evidence.stdin_sha256 == hashlib.sha256(b"half of the ").hexdigest()
    assert Kind.EOF not in [kind for kind, _ in calls[0].said]
    assert "request_sent" not in run.line.told


async def test_a_command_whose_input_broke_off_is_soon_left(wire: ParamikoWire) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"half"
        raise StdinBroken

    def script(call: Call) -> None:
        call.accept()
        call.hold()

    async with Peer(script) as peer:
        evidence = await drive(wire, peer.hop(), stdin=parts()).run()
    assert (evidence.complete, evidence.fault) == (False, Fault.ABANDONED)
    assert evidence.observation == "closed by the broker, as its input had broken off, before the command's end"


async def test_nothing_is_sent_before_who_must_be_there_is_there(wire: ParamikoWire) -> None:
    asked, there = asyncio.Event(), asyncio.Event()

    async def ready() -> None:
        asked.set()
        await there.wait()

    async with Peer(plain) as peer:
        run = drive(wire, peer.hop(), ready=ready)
        running = asyncio.ensure_future(run.run())
        async with asyncio.timeout(BOUND_S):
            await asked.wait()
        assert run.line.told == []
        there.set()
        evidence = await running
    assert (evidence.crossed, evidence.complete) == (True, True)


async def test_who_does_not_come_stops_the_set_up(wire: ParamikoWire) -> None:
    async def ready() -> None:
        raise Told

    async with Peer(plain) as peer:
        run = drive(wire, peer.hop(), ready=ready)
        with pytest.raises(Told):
            await run.run()
    assert not run.exchange.evidence.crossed


async def test_a_server_that_goes_while_somebody_is_waited_for_stops_the_set_up(wire: ParamikoWire) -> None:
    async def ready() -> None:
        way = run.exchange._way
        assert way is not None
        while way.fit:
            await turns(1)

    async with Peer(lambda call: call.open()) as peer:
        run = drive(wire, peer.hop(), ready=ready)
        evidence = await run.run()
    assert (evidence.crossed, evidence.stopped is not None, run.line.told) == (False, True, [])


async def test_a_key_that_cannot_be_used(wire: ParamikoWire) -> None:
    async with Peer(plain) as peer:
        run = drive(wire, peer.hop(login=KeyLogin(Secret(b"no key"))))
        with pytest.raises(SshKeyUnusable) as caught:
            await run.run()
        assert caught.value.fault is KeyFault.MALFORMED
        assert peer.calls == []
    assert not run.exchange.evidence.crossed


async def test_a_secret_that_was_wiped(wire: ParamikoWire) -> None:
    secret = Secret(PASSWORD)
    async with Peer(plain) as peer:
        run = drive(wire, peer.hop(login=PasswordLogin(secret)))
        secret.wipe()
        with pytest.raises(SecretWiped):
            await run.run()
        assert peer.calls == []


# Set-up


async def test_the_deadline_is_a_limit_of_every_stage(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.hold()

    async with Peer(script) as peer:
        evidence = await drive(wire, peer.hop(), deadline_s=0.5).run()
    assert evidence.stopped is not None
    assert (evidence.stopped.fault, evidence.stopped.detail) == (SetupFault.LIMIT, "the action's deadline")


async def test_an_address_that_is_not_allowed(wire: ParamikoWire) -> None:
    async with Peer(plain) as peer:
        evidence = await drive(wire, peer.hop(), allow=lambda address: False).run()
        assert peer.calls == []
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.fault) == (Stage.DNS, SetupFault.BLOCKED)


@pytest.mark.parametrize("login", [PasswordLogin, InteractiveLogin])
async def test_logins_with_a_password(wire: ParamikoWire, login: type[PasswordLogin]) -> None:
    async with Peer(plain) as peer:
        assert (await drive(wire, peer.hop(login=login(Secret(PASSWORD)))).run()).complete
    async with Peer(plain) as peer:
        evidence = await drive(wire, peer.hop(login=login(Secret(b"wrong")))).run()
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.AUTH_REFUSED


@pytest.mark.parametrize(
    "prompts",
    [
        ((("Password: ", False), ("Code: ", False)),),
        ((("User: ", True),),),
        ((("Password: ", False),), (("Code: ", False),)),
    ],
)
async def test_another_prompt_is_another_factor(
    wire: ParamikoWire, prompts: tuple[tuple[tuple[str, bool], ...], ...]
) -> None:
    class More(Access):
        pass

    More.prompts = prompts
    async with Peer(plain, access=More()) as peer:
        evidence = await drive(wire, peer.hop(login=InteractiveLogin(Secret(PASSWORD)))).run()
        given = [answer for answers in peer.access.answers for answer in answers]
        assert given in ([], [PASSWORD.decode()])
        assert not [1 for asked in prompts[0] if asked[1] and given]
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.AUTH_PARTIAL


async def test_an_empty_round_of_prompts_is_answered(wire: ParamikoWire) -> None:
    class Chatty(Access):
        prompts = ((), (("Password: ", False),), ())

    async with Peer(plain, access=Chatty()) as peer:
        assert (await drive(wire, peer.hop(login=InteractiveLogin(Secret(PASSWORD)))).run()).complete


async def test_a_method_that_is_not_allowed(wire: ParamikoWire) -> None:
    class KeysOnly(Access):
        methods = "publickey"
        by_password = 2

    async with Peer(plain, access=KeysOnly()) as peer:
        evidence = await drive(wire, peer.hop()).run()
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.AUTH_REFUSED
    assert "publickey" in evidence.stopped.detail


@pytest.mark.parametrize("count", [17, 2**32 - 1])
async def test_prompts_without_number(wire: ParamikoWire, count: int) -> None:
    class Quiet(Access):
        def check_auth_interactive(self, username: str, submethods: str) -> object:
            asked.set()
            peer.release.wait(BOUND_S)
            return 2

    asked = threading.Event()

    def after_the_question(call: Call) -> None:
        call.shake()
        asked.wait(BOUND_S)
        call.send_raw(b"\x3c" + string(b"") * 3 + uint32(count) + b"\0\0\0\1?\0" * 20)
        call.hold()

    async with Peer(after_the_question, access=Quiet()) as peer:
        evidence = await drive(wire, peer.hop(login=InteractiveLogin(Secret(PASSWORD)))).run()
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.fault) == (Stage.SSH_AUTH, SetupFault.GARBLED)


# Signals


async def test_a_signal_goes_out_as_the_protocol_has_it(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.data(b"ready")
        fields = call.expect_request(b"signal")
        assert not call.wanted_reply
        assert bytes(fields.string()) == b"TERM"
        call.request(b"exit-signal", string(b"TERM") + b"\0" + string(b"") + string(b""))
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop())
        assert not run.exchange.signal("TERM")
        running = asyncio.ensure_future(run.run())
        await run.sink.first.wait()
        assert run.exchange.signal("TERM")
        evidence = await running
        assert not run.exchange.signal("TERM")
    assert evidence.exit_signal is not None
    for name in ("", "term", "TERM; rm", "SIG\n", "A" * 40):
        with pytest.raises(ValueError, match="signal"):
            run.exchange.signal(name)


# Bounds


async def test_a_peer_that_asks_and_never_reads_is_cut_off(wire: ParamikoWire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request wants an answer; the answers are not read. They are not kept without bound."""
    monkeypatch.setattr(pipe, "UNSENT_MAX", 4096)

    def script(call: Call) -> None:
        call.accept()
        assert call.transport is not None
        call.transport.packetizer.read_message = lambda: call._peer.release.wait(BOUND_S)  # reads no more
        while True:
            call.request(b"keepalive@openssh.com", b"x" * 10, wants_reply=True)

    async def small_buffer() -> None:
        way = run.exchange._way
        assert way is not None
        assert isinstance(way.last.pipe, pipe.SocketPipe)
        way.last.pipe._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    async with Peer(script, rcvbuf=4096) as peer:
        run = drive(wire, peer.hop(), line=ToldLine(small_buffer))
        evidence = await run.run()
    assert evidence.fault is Fault.ABANDONED
    assert evidence.observation is not None
    assert "reads nothing" in evidence.observation
    assert not evidence.exited


async def test_a_peer_with_a_small_window_and_small_packets(wire: ParamikoWire) -> None:
    stdin = bytes(range(256)) * 40

    def script(call: Call) -> None:
        call.shake()
        call.expect_open()
        call.confirm(window=100, packet=33)
        call.expect_exec()
        call.send(Kind.SUCCESS)
        got = b""
        while True:
            kind, payload = call.next()
            if kind == Kind.EOF:
                break
            if kind == Kind.DATA:
                part = bytes(Fields(payload[4:]).string())
                assert len(part) <= 33
                got += part
                call.send(Kind.WINDOW_ADJUST, uint32(len(part)))
        call.data(got)
        finish(call)
        call.hold()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), stdin=stdin)
        assert (await run.run()).complete
    assert run.sink.stdout == stdin


async def test_input_stops_when_the_command_reads_no_more(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.expect_open()
        call.confirm(window=10)
        call.expect_exec()
        call.send(Kind.SUCCESS)
        call.expect(Kind.DATA)
        call.request(b"eow@openssh.com")
        call.send(Kind.WINDOW_ADJUST, uint32(1000))
        call.request(b"keepalive@openssh.com", wants_reply=True)
        while True:
            kind, _ = call.next()
            assert kind not in (Kind.DATA, Kind.EOF)
            if kind == Kind.FAILURE:
                break
        finish(call)
        call.hold()

    async with Peer(script) as peer:
        evidence = await drive(wire, peer.hop(), stdin=b"x" * 100).run()
    assert (evidence.stdin_bytes, evidence.stdin_complete, evidence.complete) == (10, False, True)


# Reuse


async def test_a_kept_transport_is_closed_with_the_others(wire: ParamikoWire) -> None:
    async with Peer(plain) as peer:
        assert (await drive(wire, peer.hop(), reuse="k").run()).complete
        call = await peer.call()
        assert not call.over.is_set()
        wire.close_idle()
        assert await asyncio.to_thread(call.over.wait, BOUND_S)


async def test_what_is_in_use_at_close_idle_is_not_kept(wire: ParamikoWire) -> None:
    go = threading.Event()

    def script(call: Call) -> None:
        call.accept()
        call.data(b"x")
        go.wait(BOUND_S)
        finish(call)
        call.hold()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), reuse="k")
        running = asyncio.ensure_future(run.run())
        await run.sink.first.wait()
        wire.close_idle()
        go.set()
        assert (await running).complete
        call = await peer.call()
        assert await asyncio.to_thread(call.over.wait, BOUND_S)


def twice(call: Call) -> None:
    """Serve two commands on one connection."""
    call.accept()
    finish(call)
    call.expect(Kind.CLOSE)
    call.expect_open()
    call.confirm()
    call.expect_exec()
    call.send(Kind.SUCCESS)
    call.data(b"second")
    finish(call)
    call.hold()


async def test_the_second_command_has_a_channel_of_its_own(wire: ParamikoWire) -> None:
    async with Peer(twice) as peer:
        await drive(wire, peer.hop(), reuse="k").run()
        run = drive(wire, peer.hop(), reuse="k")
        evidence = await run.run()
        assert len(peer.calls) == 1
    assert run.sink.stdout == b"second"
    assert evidence.connection is not None
    assert evidence.connection.reused


@pytest.mark.parametrize(
    "ending",
    [
        lambda call: call.send(Kind.CLOSE),
        lambda call: (call.status(0), call.status(1)),
        lambda call: (call.status(0), call.send(Kind.EOF)),
    ],
)
async def test_only_an_end_in_order_is_kept(wire: ParamikoWire, ending: Callable[[Call], object]) -> None:
    def script(call: Call) -> None:
        call.accept()
        ending(call)
        call.hold()

    async with Peer(script) as peer:
        await drive(wire, peer.hop(), reuse="k").run()
        call = await peer.call()
        assert await asyncio.to_thread(call.over.wait, BOUND_S)


async def test_a_kept_transport_whose_peer_refuses_a_channel_stops_there(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        finish(call)
        call.expect_open()
        call.refuse(4)
        call.hold()

    async with Peer(script) as peer:
        await drive(wire, peer.hop(), reuse="k").run()
        evidence = await drive(wire, peer.hop(), reuse="k").run()
        assert len(peer.calls) == 1
    assert evidence.stopped is not None
    assert (evidence.stopped.reached, evidence.stopped.fault) == (Stage.SSH_AUTH, SetupFault.CHANNEL_SHORTAGE)


async def test_a_kept_transport_that_ends_when_it_is_used_is_replaced(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        finish(call)
        call.expect_open()  # and the connection ends

    async with Peer(script) as peer:
        first = await drive(wire, peer.hop(), reuse="k").run()
        second = await drive(wire, peer.hop(), reuse="k").run()
        assert len(peer.calls) == 2
    assert second.complete
    assert first.connection is not None
    assert second.connection is not None
    assert not second.connection.reused
    assert second.connection.id != first.connection.id


def then_silent(call: Call) -> None:
    """Serve one command on the first connection and nothing more, as a host that is gone without a word."""
    call.accept()
    finish(call)
    call.hold()


async def test_a_kept_transport_that_has_silently_died_is_replaced(wire: ParamikoWire) -> None:
    """Nobody answered on it and nothing was sent: that is no reason to give up a try."""
    async with Peer(then_silent) as peer:
        await drive(wire, peer.hop(), reuse="k").run()
        run = drive(wire, peer.hop(), reuse="k", limits=replace(QUICK, stage_s=3.0))
        evidence = await run.run()
        first = await peer.call()
        assert await asyncio.to_thread(first.over.wait, BOUND_S)
        assert len(peer.calls) == 2
    assert evidence.complete
    assert evidence.connection is not None
    assert not evidence.connection.reused


async def test_at_the_deadline_no_other_transport_is_tried(wire: ParamikoWire) -> None:
    async with Peer(then_silent) as peer:
        await drive(wire, peer.hop(), reuse="k").run()
        evidence = await drive(wire, peer.hop(), reuse="k", deadline_s=0.3).run()
        assert len(peer.calls) == 1
    stopped = evidence.stopped
    assert stopped is not None
    assert (stopped.stage, stopped.fault) == (Stage.SSH_CHANNEL, SetupFault.LIMIT)
    assert stopped.detail == "the action's deadline"


async def test_after_a_kept_transport_a_stop_names_the_jump_host_that_it_is_at(wire: ParamikoWire) -> None:
    jump = hop()  # where nobody listens
    async with Peer(then_silent) as peer:
        target = peer.hop()
        await drive(wire, target, reuse="k").run()
        kept = wire._idle.lease(Key.of("k", (target,))).take(lambda way: True)
        assert kept is not None
        wire._idle.lease(Key.of("k", (jump, target))).give(kept)
        run = drive(wire, target, jumps=(jump,), reuse="k", limits=replace(QUICK, stage_s=0.5))
        stopped = (await run.run()).stopped
    assert stopped is not None
    assert stopped.stage is Stage.TCP_CONNECT
    assert stopped.detail.startswith("jump host 127.0.0.1:1")


async def test_a_kept_transport_to_an_address_that_is_not_allowed_any_more(wire: ParamikoWire) -> None:
    async with Peer(plain) as peer:
        await drive(wire, peer.hop(), reuse="k").run()
        evidence = await drive(wire, peer.hop(), reuse="k", allow=lambda address: False).run()
        call = await peer.call()
        assert await asyncio.to_thread(call.over.wait, BOUND_S)
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.BLOCKED


async def test_a_transport_that_ends_while_it_waits_is_forgotten(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        finish(call)
        if len(peer.calls) == 1:
            call.expect(Kind.CLOSE)
            call.fin()
        else:
            call.hold()

    async with Peer(script) as peer:
        await drive(wire, peer.hop(), reuse="k").run()
        call = await peer.call()
        assert await asyncio.to_thread(call.over.wait, BOUND_S)
        evidence = await drive(wire, peer.hop(), reuse="k").run()
        assert evidence.complete
        assert evidence.connection is not None
        assert not evidence.connection.reused
        assert len(peer.calls) == 2
