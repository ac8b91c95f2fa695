"""What a session keeps from paramiko, and from the peer."""

from __future__ import annotations

import asyncio
import logging
import socket

import paramiko
import pytest
from tests.broker.wire.ssh.driver import drive
from tests.broker.wire.ssh.peer import Call, Peer

from affidavit.broker.terms import Stage
from affidavit.broker.wire.port import SetupFault
from affidavit.broker.wire.ssh import algorithms
from affidavit.broker.wire.ssh.channel import CommandChannel, Kind
from affidavit.broker.wire.ssh.exchange import ParamikoWire
from affidavit.broker.wire.ssh.fields import string, uint32
from affidavit.broker.wire.ssh.pipe import SocketPipe
from affidavit.broker.wire.ssh.session import Session


def idle_session(sock: socket.socket) -> Session:
    loop = asyncio.get_running_loop()
    return Session(SocketPipe(sock, loop), algorithms.ALL_SIGNATURES, loop)


async def test_no_exec_message_leaves_but_by_execute() -> None:
    """The second lock: even a message made elsewhere stops at the last step before the bytes."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    session = idle_session(ours)
    message = bytes([Kind.REQUEST]) + uint32(7) + string(b"exec") + b"\1" + string(b"rm")
    with pytest.raises(RuntimeError, match="did not cross the line"):
        session._send_message(paramiko.Message(message))
    session._send_message(paramiko.Message(message.replace(b"exec", b"env_")))
    assert theirs.recv(1000)
    channel = CommandChannel()
    channel.peer = 7
    session.execute(channel, b"rm")
    assert not session.executed
    session.active = True
    session.clear_to_send.set()
    session.wake()
    assert session.executed
    assert b"exec" in theirs.recv(1000)
    with pytest.raises(RuntimeError):
        session._send_message(paramiko.Message(message))
    session.end()
    theirs.close()


async def test_nothing_is_logged(wire: ParamikoWire, caplog: pytest.LogCaptureFixture) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.data(b"a secret in the output")
        call.garbage()
        call.hold()

    with caplog.at_level(logging.DEBUG):
        async with Peer(script) as peer:
            await drive(wire, peer.hop(), b"a secret in the command").run()
    ours = [record for record in caplog.records if record.name.startswith("paramiko")]
    # The peer in this process is paramiko too, and its packets do log.
    assert not [record for record in ours if "secret" in record.getMessage()]
    assert not [record for record in ours if record.threadName == "affidavit-ssh"]


async def test_extensions_without_number(wire: ParamikoWire) -> None:
    """paramiko counts to what the peer says; the read here ends where the message does."""

    def script(call: Call) -> None:
        call.shake()
        call.client = 0
        call.send_raw(b"\x07" + uint32(2**32 - 1) + string(b"name") + string(b"value"))
        call.hold()

    async with Peer(script) as peer:
        evidence = await drive(wire, peer.hop()).run()
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.GARBLED


async def test_a_message_for_a_channel_that_was_never_asked_for(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.expect_open()
        call.client = 99
        call.data(b"x")
        call.hold()

    async with Peer(script) as peer:
        evidence = await drive(wire, peer.hop()).run()
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.fault) == (Stage.SSH_CHANNEL, SetupFault.GARBLED)


async def test_another_host_key_in_a_later_key_exchange(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        assert call.transport is not None
        call.transport.add_server_key(paramiko.ECDSAKey.generate(bits=256))
        call.transport._send_kex_init()
        call.hold()

    async with Peer(script) as peer:
        evidence = await drive(wire, peer.hop()).run()
    assert evidence.crossed
    assert not evidence.complete
    assert evidence.fault == "malformed"


async def test_lines_before_the_version_are_passed_over(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.raw(b"welcome\r\nto this host\n")
        call.accept()
        call.status(0)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    async with Peer(script) as peer:
        assert (await drive(wire, peer.hop()).run()).complete


async def test_no_threads_are_left(wire: ParamikoWire) -> None:
    async with Peer(Call.accept) as peer:
        run = drive(wire, peer.hop())
        await run.run()
        way = run.exchange._way
        assert way is not None
        await asyncio.to_thread(way.last.join, 10)
        assert not way.last.is_alive()
