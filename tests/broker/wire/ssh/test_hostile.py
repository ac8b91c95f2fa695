"""The SSH cases of broken and hostile peers: one test for each, by its number, down to the verdict that follows.

S01 to S03 are refused before a wire is asked; that the wire refuses them too is tested with `exchange`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace

import paramiko
import pytest
from tests.broker.wire.driver import ToldLine
from tests.broker.wire.ssh.driver import QUICK, Drive, drive
from tests.broker.wire.ssh.peer import OTHER_KEY, Access, Call, Peer

from affidavit.broker import outcome as oc
from affidavit.broker.outcome import Meaning, Verdict
from affidavit.broker.terms import Code, Outcome, Phase, Retry, Stage
from affidavit.broker.wire.dial import Address
from affidavit.broker.wire.port import Fault, SetupFault
from affidavit.broker.wire.ssh.channel import WINDOW, Kind
from affidavit.broker.wire.ssh.exchange import ParamikoWire
from affidavit.broker.wire.ssh.fields import string, uint32
from affidavit.broker.wire.ssh.port import ExitSignal, HostKey, SshEvidence, SshLimits

WRITE = Meaning(idempotent=False, keyed=False)
SHORT = SshLimits(stage_s=0.4, close_grace_s=0.2)
"""Limits for peers that never answer."""


@pytest.fixture(autouse=True, params=range(3))
def nth_time(request: pytest.FixtureRequest) -> int:
    """Each case runs some times: a race shows only now and then."""
    return int(request.param)


def said(verdict: Verdict) -> tuple[Phase, Outcome, Code, Retry]:
    return verdict.phase, verdict.outcome, verdict.code, verdict.retry


def not_attempted(code: Code, retry: Retry) -> tuple[Phase, Outcome, Code, Retry]:
    return Phase.CONNECTION_SETUP, Outcome.NOT_ATTEMPTED, code, retry


def executed(outcome: Outcome, code: Code, retry: Retry) -> tuple[Phase, Outcome, Code, Retry]:
    return Phase.REMOTE_EXECUTION, outcome, code, retry


UNKNOWN = executed(Outcome.UNKNOWN, Code.REMOTE_RESULT_INCOMPLETE, Retry.RECONCILE)
DEADLINE = executed(Outcome.UNKNOWN, Code.REMOTE_DEADLINE, Retry.RECONCILE)


async def stops(
    wire: ParamikoWire, script: Callable[[Call], None], *, limits: SshLimits = QUICK, **options: object
) -> SshEvidence:
    """Run against a peer that does not let the exchange come to the line: nothing may have crossed it."""
    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), limits=limits, **options)  # type: ignore[arg-type]
        evidence = await run.run()
    return stopped(run, evidence, peer)


def stopped(run: Drive, evidence: SshEvidence, peer: Peer | None = None) -> SshEvidence:
    assert not evidence.crossed
    assert evidence.stopped is not None
    assert evidence.fault is None
    assert not evidence.complete
    assert run.line.told == []
    for call in peer.calls if peer is not None else ():
        assert not [payload for kind, payload in call.said if kind == Kind.REQUEST and b"exec" in payload]
    return evidence


async def ends(
    wire: ParamikoWire, script: Callable[[Call], None], *, limits: SshLimits = QUICK, **options: object
) -> tuple[SshEvidence, Drive]:
    """Run against a peer that takes the command, to the end that it makes."""
    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), limits=limits, **options)  # type: ignore[arg-type]
        evidence = await run.run()
    assert evidence.crossed
    assert run.line.told[0] == "cross"
    assert evidence.complete == (evidence.fault is None)
    return evidence, run


async def outlasts(
    wire: ParamikoWire, script: Callable[[Call], None], ready: str, *, limits: SshLimits = QUICK
) -> tuple[SshEvidence, SshEvidence]:
    """Run against a peer that goes silent; its evidence at a deadline, and after the close that follows."""
    silent = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told(call: Call) -> None:
        script(call)
        loop.call_soon_threadsafe(silent.set)
        call.hold()

    async with Peer(told) as peer:
        run = drive(wire, peer.hop(), limits=limits)
        running = asyncio.ensure_future(run.run())
        await silent.wait()
        await run.until(lambda evidence: bool(getattr(evidence, ready)))
        before = run.exchange.evidence
        assert not running.done()
        run.exchange.close()
        closed_at = time.monotonic()
        after = await running
        assert time.monotonic() - closed_at < 0.5
    return before, after


def setup_verdict(evidence: SshEvidence) -> tuple[Phase, Outcome, Code, Retry]:
    assert evidence.stopped is not None
    return said(oc.setup_verdict(evidence.stopped))


def verdict(evidence: SshEvidence) -> tuple[Phase, Outcome, Code, Retry]:
    return said(oc.ssh_verdict(evidence, WRITE, {}))


def deadline_verdict(evidence: SshEvidence) -> tuple[Phase, Outcome, Code, Retry]:
    return said(oc.ssh_deadline_verdict(evidence, WRITE, {}, caller_gone=False))


# Before the line


async def test_s04_tcp_refused(wire: ParamikoWire) -> None:
    async with Peer(Call.hold) as peer:
        hop = peer.hop()
    run = drive(wire, hop)
    evidence = stopped(run, await run.run())
    assert evidence.stopped is not None
    assert (evidence.stopped.reached, evidence.stopped.stage) == (Stage.DNS, Stage.TCP_CONNECT)
    assert evidence.stopped.system == "ECONNREFUSED"
    assert setup_verdict(evidence) == not_attempted(Code.CONNECT_FAILED, Retry.BACKOFF)


async def test_s05_dns_failure() -> None:
    def resolve(host: str, port: int) -> list[Address]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    async with Peer(Call.hold) as peer:
        hop = peer.hop()
    wire = ParamikoWire(resolve=resolve)
    run = drive(wire, replace(hop, host="no.such.test"))
    evidence = stopped(run, await run.run())
    assert evidence.stopped is not None
    assert evidence.stopped.system == "EAI_NONAME"
    assert setup_verdict(evidence) == not_attempted(Code.DNS_FAILED, Retry.AFTER_CORRECTION)


async def test_s06_no_banner(wire: ParamikoWire) -> None:
    evidence = await stops(wire, Call.hold, limits=SHORT)
    assert evidence.stopped is not None
    assert (evidence.stopped.reached, evidence.stopped.stage) == (Stage.TCP_CONNECT, Stage.SSH_VERSION)
    assert evidence.stopped.fault is SetupFault.LIMIT
    assert setup_verdict(evidence) == not_attempted(Code.SSH_TRANSPORT_FAILED, Retry.BACKOFF)


async def test_s07_closes_immediately(wire: ParamikoWire) -> None:
    evidence = await stops(wire, lambda call: None)
    assert evidence.stopped is not None
    assert evidence.stopped.stage is Stage.SSH_VERSION
    assert evidence.stopped.fault is SetupFault.REFUSED
    assert setup_verdict(evidence) == not_attempted(Code.SSH_TRANSPORT_FAILED, Retry.BACKOFF)


@pytest.mark.parametrize("what", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64 + b"\n", b"SSH-2.0-x\n" + b"z" * 400])
async def test_s08_garbage(wire: ParamikoWire, what: bytes) -> None:
    def script(call: Call) -> None:
        call.raw(what)
        call.fin()
        call.hold()

    evidence = await stops(wire, script)
    assert setup_verdict(evidence) == not_attempted(Code.SSH_TRANSPORT_FAILED, Retry.BACKOFF)


async def test_s08_an_endless_line_is_not_kept(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        while True:
            call.raw(b"a" * 65536)

    evidence = await stops(wire, script)
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.GARBLED


async def test_s09_version_1_5(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.raw(b"SSH-1.5-old\r\n")
        call.hold()

    evidence = await stops(wire, script)
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.system) == (Stage.SSH_VERSION, "SSH_VERSION")
    assert setup_verdict(evidence) == not_attempted(Code.SSH_TRANSPORT_FAILED, Retry.AFTER_CORRECTION)


async def test_s10_a_packet_of_four_gigabytes(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.raw(b"SSH-2.0-big\r\n" + struct.pack(">IB", 0xFFFFFFF0, 4) + b"\x14" * 64)
        call.hold()

    evidence = await stops(wire, script)
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.fault) == (Stage.SSH_KEX, SetupFault.GARBLED)
    assert setup_verdict(evidence) == not_attempted(Code.SSH_TRANSPORT_FAILED, Retry.BACKOFF)


async def test_s11_version_then_silence(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.raw(b"SSH-2.0-quiet\r\n")
        call.hold()

    evidence = await stops(wire, script, limits=SHORT)
    assert evidence.stopped is not None
    assert (evidence.stopped.reached, evidence.stopped.stage) == (Stage.SSH_VERSION, Stage.SSH_KEX)
    assert setup_verdict(evidence) == not_attempted(Code.SSH_TRANSPORT_FAILED, Retry.BACKOFF)


async def test_s12_host_key_unknown(wire: ParamikoWire) -> None:
    async with Peer(Call.shake) as peer:
        run = drive(wire, peer.hop(host_keys=()))
        evidence = stopped(run, await run.run(), peer)
    assert evidence.stopped is not None
    assert evidence.stopped.detail == HostKey.of(peer.host_keys[0].asbytes()).fingerprint
    assert setup_verdict(evidence) == not_attempted(Code.HOST_KEY_UNKNOWN, Retry.AFTER_CORRECTION)


async def test_s13_host_key_mismatch(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.hold()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(host_keys=(HostKey.of(OTHER_KEY.asbytes()),)))
        evidence = stopped(run, await run.run(), peer)
        assert not peer.calls[0].transport.is_authenticated()  # type: ignore[union-attr]
    assert evidence.stopped is not None
    assert (evidence.stopped.reached, evidence.stopped.stage) == (Stage.SSH_KEX, Stage.HOST_KEY)
    assert setup_verdict(evidence) == not_attempted(Code.HOST_KEY_MISMATCH, Retry.AFTER_CORRECTION)


async def test_s13_the_pinned_kind_is_wrong_and_another_is_right(wire: ParamikoWire) -> None:
    """Of several pinned kinds only the best is asked for: the good ECDSA key does not help the wrong RSA one here."""
    rsa, other = paramiko.RSAKey.generate(2048), paramiko.RSAKey.generate(2048)
    async with Peer(Call.shake, host_keys=(rsa,)) as peer:
        pins = (HostKey.of(OTHER_KEY.asbytes()), HostKey.of(rsa.asbytes()))
        run = drive(wire, peer.hop(host_keys=pins))
        evidence = stopped(run, await run.run(), peer)
        assert evidence.stopped is not None
        assert (evidence.stopped.stage, evidence.stopped.system) == (Stage.HOST_KEY, "HOST_KEY_NOT_OFFERED")
        assert setup_verdict(evidence) == not_attempted(Code.HOST_KEY_MISMATCH, Retry.AFTER_CORRECTION)
        run = drive(wire, peer.hop(host_keys=(HostKey.of(other.asbytes()),)))
        evidence = stopped(run, await run.run(), peer)
    assert setup_verdict(evidence) == not_attempted(Code.HOST_KEY_MISMATCH, Retry.AFTER_CORRECTION)


async def test_s13_a_host_is_asked_for_the_pinned_kind_though_it_has_a_better_one(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.status(0)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    rsa = paramiko.RSAKey.generate(2048)
    async with Peer(script, host_keys=(OTHER_KEY, rsa)) as peer:
        evidence = await drive(wire, peer.hop(host_keys=(HostKey.of(rsa.asbytes()),))).run()
        assert evidence.complete
        both = (HostKey.of(rsa.asbytes()), HostKey.of(Peer(Call.hold).host_keys[0].asbytes()))
        evidence = await drive(wire, peer.hop(host_keys=both)).run()
    assert setup_verdict(evidence) == not_attempted(Code.HOST_KEY_MISMATCH, Retry.AFTER_CORRECTION)


async def test_s14_auth_refused(wire: ParamikoWire) -> None:
    class Nobody(Access):
        by_password = paramiko.AUTH_FAILED

    def script(call: Call) -> None:
        call.shake()
        call.hold()

    async with Peer(script, access=Nobody()) as peer:
        run = drive(wire, peer.hop())
        evidence = stopped(run, await run.run(), peer)
    assert evidence.stopped is not None
    assert (evidence.stopped.reached, evidence.stopped.stage) == (Stage.HOST_KEY, Stage.SSH_AUTH)
    assert evidence.stopped.fault is SetupFault.AUTH_REFUSED
    assert setup_verdict(evidence) == not_attempted(Code.SSH_AUTH_FAILED, Retry.AFTER_CORRECTION)


async def test_s15_auth_partial(wire: ParamikoWire) -> None:
    class More(Access):
        by_password = paramiko.AUTH_PARTIALLY_SUCCESSFUL
        methods = "keyboard-interactive"

    def script(call: Call) -> None:
        call.shake()
        call.hold()

    async with Peer(script, access=More()) as peer:
        run = drive(wire, peer.hop())
        evidence = stopped(run, await run.run(), peer)
        assert peer.access.answers == []  # no second method is tried
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.AUTH_PARTIAL
    assert "keyboard-interactive" in evidence.stopped.detail
    assert setup_verdict(evidence) == not_attempted(Code.SSH_AUTH_FAILED, Retry.AFTER_CORRECTION)


async def test_s16_auth_never_answered(wire: ParamikoWire) -> None:
    class Slow(Access):
        def check_auth_password(self, username: str, password: str) -> int:
            peer.release.wait(10)
            return int(paramiko.AUTH_FAILED)

    def script(call: Call) -> None:
        call.shake()
        call.hold()

    async with Peer(script, access=Slow()) as peer:
        run = drive(wire, peer.hop(), limits=SHORT)
        evidence = stopped(run, await run.run(), peer)
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.LIMIT
    assert setup_verdict(evidence) == not_attempted(Code.SSH_AUTH_FAILED, Retry.BACKOFF)


@pytest.mark.parametrize(("reason", "retry"), [(1, Retry.AFTER_CORRECTION), (3, Retry.AFTER_CORRECTION)])
async def test_s17_channel_open_refused_prohibited(wire: ParamikoWire, reason: int, retry: Retry) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.expect_open()
        call.refuse(reason)
        call.hold()

    evidence = await stops(wire, script)
    assert evidence.stopped is not None
    assert (evidence.stopped.reached, evidence.stopped.stage) == (Stage.SSH_AUTH, Stage.SSH_CHANNEL)
    assert evidence.stopped.system == f"SSH_OPEN_{reason}"
    assert setup_verdict(evidence) == not_attempted(Code.SSH_CHANNEL_REFUSED, retry)


async def test_s18_channel_open_refused_resource_shortage(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.expect_open()
        call.refuse(4)
        call.hold()

    evidence = await stops(wire, script)
    assert setup_verdict(evidence) == not_attempted(Code.SSH_CHANNEL_REFUSED, Retry.BACKOFF)


async def test_s19_channel_open_never_answered(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.hold()

    evidence = await stops(wire, script, limits=SHORT)
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.fault) == (Stage.SSH_CHANNEL, SetupFault.LIMIT)
    assert setup_verdict(evidence) == not_attempted(Code.SSH_CHANNEL_REFUSED, Retry.BACKOFF)


@pytest.mark.parametrize("end", [Call.fin, Call.reset])
async def test_s20_lost_while_the_channel_is_asked_for(wire: ParamikoWire, end: Callable[[Call], None]) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.expect_open()
        end(call)

    evidence = await stops(wire, script)
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.fault) == (Stage.SSH_CHANNEL, SetupFault.REFUSED)
    assert setup_verdict(evidence) == not_attempted(Code.SSH_TRANSPORT_FAILED, Retry.BACKOFF)


async def test_s21_peer_stalls_rekey_before_exec(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.expect_open()
        call.confirm()
        call.begin_keys_and_stall()
        call.hold()

    evidence = await stops(wire, script, limits=SHORT, env=(("A", "b"),))
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.fault) == (Stage.SSH_KEX, SetupFault.LIMIT)
    assert setup_verdict(evidence) == not_attempted(Code.SSH_TRANSPORT_FAILED, Retry.BACKOFF)


async def test_s22_channel_closed_before_exec(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.expect_open()
        call.confirm()
        call.send(Kind.CLOSE)
        call.expect_request(b"env")
        call.hold()

    evidence = await stops(wire, script, env=(("A", "b"),))
    assert setup_verdict(evidence) == not_attempted(Code.SSH_TRANSPORT_FAILED, Retry.BACKOFF)


async def test_output_before_exec(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.shake()
        call.expect_open()
        call.confirm()
        call.data(b"too early")
        call.expect_request(b"env")
        call.hold()

    evidence = await stops(wire, script, env=(("A", "b"),))
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.GARBLED
    assert setup_verdict(evidence) == not_attempted(Code.SSH_TRANSPORT_FAILED, Retry.BACKOFF)


async def test_a_refused_variable_is_named(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.open()
        for name in (b"GOOD", b"BAD", b"WORSE"):
            fields = call.expect_request(b"env")
            assert call.wanted_reply
            assert bytes(fields.string()) == name
            call.send(Kind.SUCCESS if name == b"GOOD" else Kind.FAILURE)
        call.hold()

    evidence = await stops(wire, script, env=(("GOOD", "1"), ("BAD", "2"), ("WORSE", "3")))
    assert evidence.stopped is not None
    assert (evidence.stopped.reached, evidence.stopped.stage) == (Stage.SSH_CHANNEL, Stage.SSH_ENVIRONMENT)
    assert evidence.stopped.name == "BAD"
    assert setup_verdict(evidence) == not_attempted(Code.SSH_ENV_REFUSED, Retry.AFTER_CORRECTION)


# After the line


async def test_s23_exec_refused(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.open()
        call.expect_exec()
        assert call.wanted_reply
        call.send(Kind.FAILURE)
        call.expect(Kind.CLOSE)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, run = await ends(wire, script)
    assert evidence.exec_refused
    assert evidence.closed
    assert evidence.completion == "refused"
    assert run.line.told == ["cross", "response_started"]
    assert run.line.status is None
    assert verdict(evidence) == executed(Outcome.REJECTED, Code.SSH_EXEC_REFUSED, Retry.AFTER_CORRECTION)


async def test_s23_exec_refused_and_the_channel_never_closed(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.open()
        call.expect_exec()
        call.send(Kind.FAILURE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert verdict(evidence) == executed(Outcome.REJECTED, Code.SSH_EXEC_REFUSED, Retry.AFTER_CORRECTION)


async def test_s23_refused_and_the_time_to_hear_more_was_not_given(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.open()
        call.expect_exec()
        call.send(Kind.FAILURE)

    before, after = await outlasts(wire, script, "exec_refused", limits=SshLimits(close_grace_s=15.0))
    assert deadline_verdict(before) == DEADLINE
    assert (after.complete, after.fault) == (False, Fault.ABANDONED)
    assert verdict(after) == UNKNOWN


async def test_s24_exec_never_answered(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.open()
        call.expect_exec()

    before, after = await outlasts(wire, script, "command_sent")
    assert deadline_verdict(before) == DEADLINE
    assert after.fault is Fault.ABANDONED
    assert verdict(after) == UNKNOWN


@pytest.mark.parametrize(("end", "fault"), [(Call.fin, Fault.CLOSED), (Call.reset, Fault.RESET)])
async def test_s25_tcp_dies_after_exec_before_reply(
    wire: ParamikoWire, end: Callable[[Call], None], fault: Fault
) -> None:
    def script(call: Call) -> None:
        call.open()
        call.expect_exec()
        end(call)

    evidence, _ = await ends(wire, script)
    assert evidence.fault is fault
    assert evidence.command_sent
    assert verdict(evidence) == UNKNOWN


async def test_s26_disconnect_after_exec(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.open()
        call.expect_exec()
        call.send_raw(b"\1" + uint32(11) + string(b"bye\x1b[31m now") + string(b""))
        call.fin()

    evidence, _ = await ends(wire, script)
    assert evidence.fault is Fault.CLOSED
    assert evidence.observation == "disconnected by peer before the reply to exec: bye?[31m now"
    assert verdict(evidence) == UNKNOWN


async def test_s27_no_reply_but_a_whole_result(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.open()
        call.expect_exec()
        call.data(b"done")
        call.status(0)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, run = await ends(wire, script)
    assert evidence.violation == "output without a reply to exec"
    assert evidence.fault is Fault.CONTRADICTION
    assert run.sink.stdout == b""
    assert verdict(evidence) == UNKNOWN


async def test_s27_no_reply_but_a_status(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.open()
        call.expect_exec()
        call.status(0)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert evidence.exit_status is None
    assert verdict(evidence) == UNKNOWN


@pytest.mark.parametrize("late", [Call.status, Call.data])
async def test_s28_refused_and_then_a_result(wire: ParamikoWire, late: Callable[..., None]) -> None:
    def script(call: Call) -> None:
        call.open()
        call.expect_exec()
        call.send(Kind.FAILURE)
        late(call, 0 if late is Call.status else b"ran all the same")
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert evidence.exec_refused
    assert not evidence.complete
    assert verdict(evidence) == UNKNOWN


async def test_s29_normal(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.open()
        assert call.expect_exec() == b"release --now"
        call.send(Kind.SUCCESS)
        call.data(b"one ")
        call.stderr(b"warning")
        call.data(b"two")
        call.status(0)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, run = await ends(wire, script, command=b"release --now")
    assert (run.sink.stdout, run.sink.stderr) == (b"one two", b"warning")
    assert (evidence.exit_status, evidence.completion) == (0, "exit+eof+close")
    assert evidence.connection is not None
    assert evidence.connection.identity == HostKey.of(Peer(Call.hold).host_keys[0].asbytes()).identity
    assert verdict(evidence) == executed(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.NEVER)


@pytest.mark.parametrize("status", [7, 255, 2**32 - 1])
async def test_s30_status_non_zero(wire: ParamikoWire, status: int) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.status(status)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert evidence.exit_status == status
    assert verdict(evidence) == executed(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.RECONCILE)


async def test_s31_eof_before_the_status(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.send(Kind.EOF)
        call.status(0)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert verdict(evidence) == executed(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.NEVER)


async def test_s32_close_never_comes(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.status(0)
        call.send(Kind.EOF)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert evidence.completion == "exit+eof"
    assert not evidence.closed
    assert verdict(evidence) == executed(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.NEVER)


async def test_s33_exit_signal(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.request(b"exit-signal", string(b"SEGV") + b"\1" + string(b"core \xc3\xa9crit") + string(b"fr"))
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert evidence.exit_signal == ExitSignal("SEGV", True, "core écrit")
    assert evidence.exit_status is None
    assert evidence.completion == "signal+eof+close"
    assert verdict(evidence) == executed(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.RECONCILE)


async def test_s34_eof_and_close_without_exit_result(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.data(b"some")
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert evidence.observation == "channel closed by peer before the command's end"
    assert verdict(evidence) == UNKNOWN


async def test_s35_close_only(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert (evidence.eof, evidence.closed) == (False, True)
    assert verdict(evidence) == UNKNOWN


async def test_s36_status_and_close_without_eof(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.data(b"some")
        call.status(0)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert not evidence.complete
    assert verdict(evidence) == executed(Outcome.COMMITTED, Code.REMOTE_RESULT_INCOMPLETE, Retry.NEVER)


async def test_s37_status_then_silence(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.status(0)

    before, after = await outlasts(wire, script, "exited")
    incomplete = executed(Outcome.COMMITTED, Code.REMOTE_RESULT_INCOMPLETE, Retry.NEVER)
    assert deadline_verdict(before) == incomplete
    assert verdict(after) == incomplete
    assert not after.complete


async def test_s38_success_then_silence(wire: ParamikoWire) -> None:
    before, after = await outlasts(wire, Call.accept, "exec_accepted")
    assert before.exit_status is None
    assert deadline_verdict(before) == DEADLINE
    assert verdict(after) == UNKNOWN


async def test_f14_output_then_silence(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.data(b"working")

    before, after = await outlasts(wire, script, "stdout_bytes")
    assert deadline_verdict(before) == DEADLINE
    assert (before.exit_status, after.exit_status) == (None, None)


@pytest.mark.parametrize(("end", "fault"), [(Call.fin, Fault.CLOSED), (Call.reset, Fault.RESET)])
async def test_s39_tcp_dies_mid_output(wire: ParamikoWire, end: Callable[[Call], None], fault: Fault) -> None:
    got = asyncio.Event()
    loop = asyncio.get_running_loop()

    def script(call: Call) -> None:
        call.accept()
        call.data(b"half of")
        asyncio.run_coroutine_threadsafe(got.wait(), loop).result(10)
        end(call)

    async with Peer(script) as peer:
        run = drive(wire, peer.hop())
        running = asyncio.ensure_future(run.run())
        await run.sink.first.wait()
        got.set()
        evidence = await running
    assert (run.sink.stdout, evidence.fault) == (b"half of", fault)
    assert verdict(evidence) == UNKNOWN


@pytest.mark.parametrize("end", [Call.fin, Call.reset])
async def test_s40_tcp_dies_after_status_before_eof(wire: ParamikoWire, end: Callable[[Call], None]) -> None:
    got = asyncio.Event()
    loop = asyncio.get_running_loop()

    def script(call: Call) -> None:
        call.accept()
        call.status(0)
        call.data(b"some")
        asyncio.run_coroutine_threadsafe(got.wait(), loop).result(10)
        end(call)

    async with Peer(script) as peer:
        run = drive(wire, peer.hop())
        running = asyncio.ensure_future(run.run())
        await run.sink.first.wait()
        got.set()
        evidence = await running
    assert (evidence.exit_status, evidence.complete) == (0, False)
    assert verdict(evidence) == executed(Outcome.COMMITTED, Code.REMOTE_RESULT_INCOMPLETE, Retry.NEVER)


async def test_s41_tcp_dies_after_status_and_eof(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.data(b"whole")
        call.status(0)
        call.send(Kind.EOF)
        call.fin()

    evidence, run = await ends(wire, script)
    assert run.sink.stdout == b"whole"
    assert evidence.completion == "exit+eof"
    assert verdict(evidence) == executed(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.NEVER)


VIOLATIONS: dict[str, tuple[Callable[[Call], None], str]] = {
    "s42": (lambda call: (call.status(0), call.status(9))[0], "an exit status after an exit result"),
    "s42 after eof": (
        lambda call: (call.status(0), call.send(Kind.EOF), call.status(0))[0],
        "an exit status after an exit result",
    ),
    "s43": (
        lambda call: (
            call.status(0),
            call.request(b"exit-signal", string(b"KILL") + b"\0" + string(b"") + string(b"")),
        )[0],
        "an exit signal after an exit result",
    ),
    "s44": (lambda call: call.request(b"exit-status"), "an exit status without its value"),
    "s44 three bytes": (lambda call: call.request(b"exit-status", b"\0\0\0"), "an exit status without its value"),
    "s44 five bytes": (lambda call: call.request(b"exit-status", b"\0\0\0\0\0"), "an exit status without its value"),
    "s44 signal": (lambda call: call.request(b"exit-signal", string(b"KILL")), "a malformed REQUEST message"),
    "s45": (lambda call: call.send(Kind.FAILURE), "exec refused after it was accepted"),
    "s46": (lambda call: (call.send(Kind.EOF), call.data(b"more"))[0], "output after its end"),
    "s47": (lambda call: call.send(Kind.SUCCESS), "a reply that nobody asked for"),
    "s48": (
        lambda call: call.send(Kind.EXTENDED_DATA, uint32(2) + string(b"?")),
        "an unknown type of extended data",
    ),
    "cut data": (lambda call: call.send(Kind.DATA, uint32(9) + b"short"), "a malformed DATA message"),
    "opened again": (
        lambda call: call.confirm(),
        "an unasked OPEN_CONFIRMATION message",
    ),
    "window": (lambda call: call.send(Kind.WINDOW_ADJUST, uint32(2**32 - 1)), "a window beyond its bounds"),
}


@pytest.mark.parametrize("case", VIOLATIONS)
async def test_s42_to_s48_contradictions(wire: ParamikoWire, case: str) -> None:
    say, violation = VIOLATIONS[case]

    def script(call: Call) -> None:
        call.accept()
        say(call)
        call.status(0)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert evidence.violation == violation
    assert evidence.fault is Fault.CONTRADICTION
    assert verdict(evidence) == UNKNOWN


async def test_s49_window_overrun_flood(wire: ParamikoWire) -> None:
    """The sink takes nothing: the peer may fill the window once, and what it sends beyond is not held."""
    stuck = asyncio.Event()

    class Stuck:
        async def write(self, stream: object, data: bytes) -> None:
            await stuck.wait()

    def script(call: Call) -> None:
        call.accept()
        while True:
            call.data(b"x" * 32768)

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), sink=Stuck())  # type: ignore[arg-type]
        running = asyncio.ensure_future(run.run())
        await run.until(lambda evidence: evidence.violation is not None)
        assert run.exchange.evidence.stdout_bytes <= WINDOW
        stuck.set()
        evidence = await running
    assert evidence.violation == "more output than its window allows"
    assert verdict(evidence) == UNKNOWN


async def test_s49_window_overrun_by_a_byte(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        assert call.client_window == WINDOW
        for _ in range(WINDOW // 32768):
            call.stderr(b"x" * 32768)
        call.data(b"!")
        call.hold()

    stuck = asyncio.Event()

    class Stuck:
        async def write(self, stream: object, data: bytes) -> None:
            await stuck.wait()

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), sink=Stuck())  # type: ignore[arg-type]
        running = asyncio.ensure_future(run.run())
        await run.until(lambda evidence: evidence.violation is not None)
        assert run.exchange.evidence.stderr_bytes == WINDOW
        stuck.set()
        evidence = await running
    assert verdict(evidence) == UNKNOWN


async def test_s50_bad_mac_mid_stream(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.data(b"good so far")
        call.garbage()
        call.hold()

    evidence, _ = await ends(wire, script)
    assert evidence.fault is Fault.MALFORMED
    assert verdict(evidence) == UNKNOWN


async def test_s51_keys_stalled_while_the_command_runs(wire: ParamikoWire) -> None:
    """Nothing may be sent any more, the question for a sign of life neither: silence then ends it."""
    calls: list[Call] = []

    def script(call: Call) -> None:
        calls.append(call)
        call.accept()
        call.begin_keys_and_stall()
        call.hold()

    evidence, _ = await ends(wire, script, limits=SshLimits(keepalive_s=0.1, keepalive_answer_s=0.2))
    assert evidence.fault is Fault.SILENT
    assert 0x50 not in [kind for kind, _ in calls[0].said]
    assert verdict(evidence) == UNKNOWN


@pytest.mark.parametrize("kind", [b"auth-agent@openssh.com", b"x11", b"forwarded-tcpip", b"session"])
async def test_s52_a_channel_that_the_peer_opens_is_refused(wire: ParamikoWire, kind: bytes) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.send_raw(b"\x5a" + string(kind) + uint32(3) + uint32(1 << 20) + uint32(32768))
        refusal = call.expect(Kind.OPEN_FAILURE)
        assert refusal[:8] == uint32(3) + uint32(1)
        call.status(0)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert verdict(evidence) == executed(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.NEVER)


async def test_s53_requests_of_the_peer_get_an_answer(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        call.request(b"keepalive@openssh.com", wants_reply=True)
        call.expect(Kind.FAILURE)
        call.send_raw(b"\x50" + string(b"keepalive@openssh.com") + b"\1")
        call.request(b"unknown@example.test", b"fields")
        call.status(0)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script)
    assert evidence.exit_status == 0
    assert evidence.complete


async def test_x23_blackholed_mid_exec(wire: ParamikoWire) -> None:
    """The peer's side still takes packets, but nothing answers: neither the command nor the question."""

    def script(call: Call) -> None:
        call.accept()
        call.hold()

    started = time.monotonic()
    evidence, _ = await ends(wire, script, limits=SshLimits(keepalive_s=0.1, keepalive_answer_s=0.3))
    assert 0.3 < time.monotonic() - started < 5
    assert evidence.fault is Fault.SILENT
    assert evidence.observation == "no sign of life from peer before the command's end"
    assert verdict(evidence) == UNKNOWN


async def test_x23_a_slow_command_that_answers_the_question_lives(wire: ParamikoWire) -> None:
    def script(call: Call) -> None:
        call.accept()
        for _ in range(3):
            payload = call.expect(0x50)
            assert payload.endswith(b"\1")
            call.send_raw(b"\x52")  # REQUEST_FAILURE
        call.status(0)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)
        call.hold()

    evidence, _ = await ends(wire, script, limits=SshLimits(keepalive_s=0.1, keepalive_answer_s=3.0))
    assert verdict(evidence) == executed(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.NEVER)


@pytest.mark.parametrize("say", [lambda call: call.send(Kind.CLOSE), lambda call: call.data(b"too early"), Call.fin])
async def test_what_comes_while_the_line_is_crossed_stops_the_exec(
    wire: ParamikoWire, say: Callable[[Call], None]
) -> None:
    """A peer that has gone, or speaks out of turn, by the time that the record is durable gets no command; the outcome
    is unknown (R24)."""
    speak = asyncio.Event()
    loop = asyncio.get_running_loop()
    calls: list[Call] = []

    def script(call: Call) -> None:
        calls.append(call)
        call.open()
        asyncio.run_coroutine_threadsafe(speak.wait(), loop).result(10)
        say(call)
        call.hold()

    async def at_line() -> None:
        speak.set()
        way = run.exchange._way
        assert way is not None
        (channel,) = way.last._channels_by_number.values()
        await way.last.until(lambda: channel.closed or channel.violation is not None)

    async with Peer(script) as peer:
        run = drive(wire, peer.hop(), line=ToldLine(at_line))
        evidence = await run.run()
    assert evidence.crossed
    assert not evidence.command_sent
    assert not [payload for kind, payload in calls[0].said if kind == Kind.REQUEST]
    assert verdict(evidence) == UNKNOWN
