"""Ordinary commands on a real OpenSSH server, and what happens to them when it dies."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import shlex
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.broker.wire.driver import ToldLine
from tests.broker.wire.ssh.driver import QUICK, KeptOutput, drive
from tests.broker.wire.ssh.sshd import Sshd, keygen, public, sign

from affidavit.broker.secret import Secret
from affidavit.broker.terms import Stage
from affidavit.broker.wire.port import Fault, SetupFault
from affidavit.broker.wire.ssh import session
from affidavit.broker.wire.ssh.channel import WINDOW
from affidavit.broker.wire.ssh.exchange import ParamikoWire
from affidavit.broker.wire.ssh.port import ExitSignal, HostKey, KeyLogin, SshEvidence, SshLimits, Stream

MIB = 1024 * 1024

pytestmark = pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="there is no OpenSSH server here")


def ended(evidence: SshEvidence, status: int = 0) -> None:
    assert (evidence.exit_status, evidence.completion, evidence.fault) == (status, "exit+eof+close", None)
    assert evidence.complete
    assert evidence.violation is None


@pytest.mark.parametrize("status", [0, 1, 23, 255])
async def test_a_command_with_both_streams_and_its_status(wire: ParamikoWire, sshd: Sshd, status: int) -> None:
    run = drive(wire, sshd.hop(), f"echo out; echo err >&2; exit {status}".encode())
    evidence = await run.run()
    ended(evidence, status)
    assert (run.sink.stdout, run.sink.stderr) == (b"out\n", b"err\n")
    assert evidence.connection is not None
    assert evidence.connection.identity == public(sshd.host_key).identity
    assert evidence.connection.peer == f"127.0.0.1:{sshd.port}"
    assert sorted(run.line.told) == ["cross", "request_sent", "response_started"]


async def test_a_missing_program_is_a_result_and_no_refusal(wire: ParamikoWire, sshd: Sshd) -> None:
    evidence = await drive(wire, sshd.hop(), b"/no/such/program").run()
    ended(evidence, 127)


async def test_the_longest_command(wire: ParamikoWire, sshd: Sshd) -> None:
    command = b"echo " + b"x" * (32_000 - 5)
    run = drive(wire, sshd.hop(), command)
    ended(await run.run())
    assert len(run.sink.stdout) == 32_000 - 4


async def test_a_signal_ends_the_command(wire: ParamikoWire, sshd: Sshd) -> None:
    evidence = await drive(wire, sshd.hop(), b"kill -SEGV $$").run()
    assert evidence.exit_signal is not None
    assert evidence.exit_signal.name == "SEGV"
    assert evidence.completion == "signal+eof+close"


@pytest.mark.skipif(os.geteuid() == 0, reason="OpenSSH delivers no signals to commands of root")
async def test_a_signal_is_sent_on_request(wire: ParamikoWire, sshd: Sshd) -> None:
    run = drive(wire, sshd.hop(), b"echo ready; exec sleep 60")
    assert not run.exchange.signal("TERM")
    running = asyncio.ensure_future(run.run())
    await run.sink.first.wait()
    assert run.exchange.signal("TERM")
    evidence = await running
    assert evidence.exit_signal == ExitSignal("TERM", False, "")


async def test_environment(wire: ParamikoWire, sshd: Sshd) -> None:
    env = (("AFFIDAVIT_ID", "op-1 é"), ("AFFIDAVIT_B", ""))
    run = drive(wire, sshd.hop(), b'printf %s "$AFFIDAVIT_ID[$AFFIDAVIT_B]"', env=env)
    ended(await run.run())
    assert run.sink.stdout.decode() == "op-1 é[]"


async def test_a_variable_that_is_not_accepted_is_named(wire: ParamikoWire, sshd: Sshd, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    command = f"touch {shlex.quote(str(mark))}".encode()
    evidence = await drive(wire, sshd.hop(), command, env=(("AFFIDAVIT_A", "1"), ("LD_PRELOAD", "x"))).run()
    assert evidence.stopped is not None
    assert (evidence.stopped.fault, evidence.stopped.name) == (SetupFault.VARIABLE_REFUSED, "LD_PRELOAD")
    assert evidence.stopped.stage is Stage.SSH_ENVIRONMENT
    assert not mark.exists()


# Sizes


@pytest.mark.parametrize("stream", Stream)
async def test_64_mib_on_one_stream_alone(wire: ParamikoWire, sshd: Sshd, stream: Stream) -> None:
    """F15: nobody reads the other stream meanwhile; both are drained all the same."""
    to = ">&2" if stream is Stream.STDERR else ""
    run = drive(wire, sshd.hop(), f"head -c {64 * MIB} /dev/zero {to}".encode(), sink=KeptOutput(keep=False))
    ended(await run.run(60))
    assert run.sink.length[stream] == 64 * MIB
    assert run.sink.sha256[stream].digest() == hashlib.sha256(bytes(64 * MIB)).digest()
    assert sum(run.sink.length.values()) == 64 * MIB


async def test_much_output_to_a_slow_sink_takes_bounded_memory(wire: ParamikoWire, sshd: Sshd) -> None:
    held = 0

    class Slow(KeptOutput):
        async def write(self, stream: Stream, data: bytes) -> None:
            nonlocal held
            command = run.exchange._command
            assert command is not None
            held = max(held, sum(command.channel.bytes.values()) - self.length[Stream.STDOUT])
            await super().write(stream, data)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = drive(wire, sshd.hop(), b"head -c 256M /dev/zero", sink=Slow(keep=False))
    ended(await run.run(60))
    assert run.sink.length[Stream.STDOUT] == 256 * MIB
    assert run.sink.largest <= 256 * 1024
    assert held <= WINDOW
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


async def test_64_mib_of_stdin_both_ways(wire: ParamikoWire, sshd: Sshd) -> None:
    stdin = os.urandom(MIB) * 64
    run = drive(wire, sshd.hop(), b"tee /dev/stderr", stdin=stdin, sink=KeptOutput(keep=False))
    evidence = await run.run(60)
    ended(evidence)
    assert (evidence.stdin_bytes, evidence.stdin_complete) == (len(stdin), True)
    assert run.line.sent == len(stdin) + len(b"tee /dev/stderr")
    expected = hashlib.sha256(stdin).digest()
    assert [run.sink.sha256[stream].digest() for stream in Stream] == [expected, expected]


async def test_stdin_as_a_stream(wire: ParamikoWire, sshd: Sshd) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for n in range(5):
            yield b""
            yield f"part {n}\n".encode()

    run = drive(wire, sshd.hop(), b"cat", stdin=parts())
    ended(await run.run())
    assert run.sink.stdout == b"".join(f"part {n}\n".encode() for n in range(5))


async def test_a_command_that_does_not_read_its_input(wire: ParamikoWire, sshd: Sshd) -> None:
    run = drive(wire, sshd.hop(), b"head -c 1; exit 4", stdin=bytes(16 * MIB))
    evidence = await run.run()
    ended(evidence, 4)
    assert not evidence.stdin_complete
    assert evidence.stdin_bytes < 16 * MIB
    assert "request_sent" not in run.line.told


async def test_new_keys_in_the_middle_of_both_streams(
    wire: ParamikoWire, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanges = 0

    class Often(session._Packets):
        REKEY_BYTES = 2 * MIB

        def set_outbound_cipher(self, *args: object, **options: object) -> None:
            nonlocal exchanges
            exchanges += 1
            super().set_outbound_cipher(*args, **options)

    monkeypatch.setattr(session, "_Packets", Often)
    stdin = os.urandom(MIB) * 16
    run = drive(wire, sshd.hop(), b"cat", stdin=stdin)
    ended(await run.run(60))
    assert run.sink.stdout == stdin
    assert exchanges > 4


# Logins


@pytest.mark.parametrize(
    ("kind", "options"), [("ed25519", ()), ("ecdsa", ("-b", "384")), ("rsa", ("-b", "2048")), ("rsa", ("-m", "PEM"))]
)
@pytest.mark.parametrize("passphrase", ["", "correct horse"])
async def test_keys(
    wire: ParamikoWire, sshd: Sshd, tmp_path: Path, kind: str, options: tuple[str, ...], passphrase: str
) -> None:
    key = keygen(tmp_path / "key", *options, kind=kind, passphrase=passphrase)
    with (sshd.home / "authorized_keys").open("a") as authorized:
        authorized.write((tmp_path / "key.pub").read_text())
    login = KeyLogin(Secret(key.read_bytes()), Secret(passphrase.encode()) if passphrase else None)
    ended(await drive(wire, sshd.hop(login=login)).run())


async def test_a_key_that_is_not_authorized(wire: ParamikoWire, sshd: Sshd, tmp_path: Path) -> None:
    key = keygen(tmp_path / "key")
    evidence = await drive(wire, sshd.hop(login=KeyLogin(Secret(key.read_bytes())))).run()
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.fault) == (Stage.SSH_AUTH, SetupFault.AUTH_REFUSED)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
async def test_user_certificates(wire: ParamikoWire, tmp_path: Path, kind: str) -> None:
    authority = keygen(tmp_path / "authority")
    key = keygen(tmp_path / "key", kind=kind)
    certificate = sign(authority, key)
    with Sshd(tmp_path / "sshd", f"TrustedUserCAKeys {authority}.pub") as server:
        secret = Secret(key.read_bytes())
        evidence = await drive(wire, server.hop(login=KeyLogin(secret))).run()
        assert evidence.stopped is not None
        assert evidence.stopped.fault is SetupFault.AUTH_REFUSED
        ended(await drive(wire, server.hop(login=KeyLogin(secret, certificate=certificate.read_bytes()))).run())


async def test_more_than_one_factor_is_wanted(wire: ParamikoWire, tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd", "PasswordAuthentication yes\nAuthenticationMethods publickey,password") as server:
        evidence = await drive(wire, server.hop()).run()
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.AUTH_PARTIAL
    assert "password" in evidence.stopped.detail


# Hosts


@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
async def test_kinds_of_host_key(wire: ParamikoWire, tmp_path: Path, kind: str) -> None:
    stranger = keygen(tmp_path / "stranger")
    other = keygen(tmp_path / "other-host", kind=kind)
    with Sshd(tmp_path / "second", f"HostKey {other}") as server:
        hop = server.hop(host_keys=(public(other),))
        evidence = await drive(wire, hop).run()
        ended(evidence)
        assert evidence.connection is not None
        assert evidence.connection.identity == public(other).identity
        wrong = await drive(wire, server.hop(host_keys=(public(stranger), public(other)))).run()
    assert wrong.stopped is not None
    assert wrong.stopped.fault is SetupFault.HOST_KEY_DIFFERS


async def test_a_probe_learns_the_key_and_does_not_log_in(wire: ParamikoWire, sshd: Sshd) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    hop = sshd.hop(host_keys=(), login=KeyLogin(Secret(b"not a key at all")))
    probed = await wire.probe(hop, allow=lambda address: True, limits=QUICK, deadline=deadline)
    assert probed.stopped is None
    assert probed.host_key == public(sshd.host_key)
    assert probed.peer == f"127.0.0.1:{sshd.port}"
    assert probed.host_key is not None
    text = (sshd.home / "host.pub").read_text().split()[1]
    assert text.startswith("AAAA")
    assert probed.host_key.fingerprint.startswith("SHA256:")


async def test_a_probe_says_where_it_stopped(wire: ParamikoWire, sshd: Sshd) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    blocked = await wire.probe(sshd.hop(), allow=lambda address: False, limits=QUICK, deadline=deadline)
    assert blocked.stopped is not None
    assert blocked.host_key is None
    assert blocked.stopped.fault is SetupFault.BLOCKED


# Jump hosts


@pytest.fixture
def jump(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path / "jump") as server:
        yield server


async def test_through_a_jump_host(wire: ParamikoWire, sshd: Sshd, jump: Sshd) -> None:
    stdin = os.urandom(8 * MIB)
    run = drive(wire, sshd.hop(), b"cat", stdin=stdin, jumps=(jump.hop(),))
    evidence = await run.run(60)
    ended(evidence)
    assert run.sink.stdout == stdin
    assert evidence.connection is not None
    assert evidence.connection.identity == public(sshd.host_key).identity


async def test_through_two_jump_hosts(wire: ParamikoWire, sshd: Sshd, jump: Sshd, tmp_path: Path) -> None:
    with Sshd(tmp_path / "second") as second:
        run = drive(wire, sshd.hop(), b"echo far", jumps=(jump.hop(), second.hop()))
        ended(await run.run())
    assert run.sink.stdout == b"far\n"


async def test_each_hop_has_its_own_host_check(wire: ParamikoWire, sshd: Sshd, jump: Sshd) -> None:
    evidence = await drive(wire, sshd.hop(), jumps=(jump.hop(host_keys=(public(sshd.host_key),)),)).run()
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.HOST_KEY_DIFFERS
    assert evidence.stopped.detail.startswith(f"jump host 127.0.0.1:{jump.port}")
    evidence = await drive(wire, sshd.hop(host_keys=(public(jump.host_key),)), jumps=(jump.hop(),)).run()
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.HOST_KEY_DIFFERS
    assert evidence.stopped.address == f"127.0.0.1:{sshd.port}"
    assert "jump host" not in evidence.stopped.detail


async def test_a_target_that_the_jump_host_cannot_reach(wire: ParamikoWire, sshd: Sshd, jump: Sshd) -> None:
    closed = replace(sshd.hop(), port=1)
    evidence = await drive(wire, closed, jumps=(jump.hop(),)).run()
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.fault) == (Stage.TCP_CONNECT, SetupFault.REFUSED)
    assert evidence.stopped.system == "SSH_OPEN_2"


async def test_a_jump_host_that_allows_no_tunnel(wire: ParamikoWire, sshd: Sshd, tmp_path: Path) -> None:
    with Sshd(tmp_path / "strict", "AllowTcpForwarding no") as strict:
        evidence = await drive(wire, sshd.hop(), jumps=(strict.hop(),)).run()
    assert evidence.stopped is not None
    assert (evidence.stopped.stage, evidence.stopped.fault) == (Stage.SSH_CHANNEL, SetupFault.CHANNEL_PROHIBITED)


async def test_a_probe_behind_a_jump_host(wire: ParamikoWire, sshd: Sshd, jump: Sshd) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    probed = await wire.probe(
        sshd.hop(host_keys=()), allow=lambda address: True, limits=QUICK, deadline=deadline, jumps=(jump.hop(),)
    )
    assert probed.host_key == public(sshd.host_key)


async def test_the_jump_host_dies_while_the_command_runs(wire: ParamikoWire, sshd: Sshd, jump: Sshd) -> None:
    run = drive(wire, sshd.hop(), b"echo ready; exec sleep 60", jumps=(jump.hop(),))
    running = asyncio.ensure_future(run.run())
    await run.sink.first.wait()
    jump.kill()
    evidence = await running
    assert evidence.fault in (Fault.CLOSED, Fault.RESET)
    assert not evidence.exited


# Death


async def test_sshd_is_killed_in_mid_command(wire: ParamikoWire, tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as server:
        run = drive(wire, server.hop(), b"echo ready; exec sleep 60")
        running = asyncio.ensure_future(run.run())
        await run.sink.first.wait()
        server.kill()
        evidence = await running
    assert evidence.crossed
    assert evidence.fault in (Fault.CLOSED, Fault.RESET)
    assert (evidence.exit_status, evidence.exit_signal, evidence.complete) == (None, None, False)
    assert run.sink.stdout == b"ready\n"


async def test_sshd_is_stopped_in_mid_command(wire: ParamikoWire, tmp_path: Path) -> None:
    """The kernel goes on acknowledging bytes; only the question for a sign of life finds out."""
    with Sshd(tmp_path / "sshd") as server:
        run = drive(
            wire,
            server.hop(),
            b"echo ready; exec sleep 60",
            limits=SshLimits(keepalive_s=0.2, keepalive_answer_s=0.5),
        )
        running = asyncio.ensure_future(run.run())
        await run.sink.first.wait()
        for process in server.servers():
            os.kill(process, signal.SIGSTOP)
        evidence = await running
    assert evidence.fault is Fault.SILENT


# The line


async def test_nothing_is_executed_if_the_line_is_not_crossed(wire: ParamikoWire, sshd: Sshd, tmp_path: Path) -> None:
    class NotDurable(Exception):
        pass

    async def at_line() -> None:
        raise NotDurable

    mark = tmp_path / "ran"
    command = f"touch {shlex.quote(str(mark))}".encode()
    run = drive(wire, sshd.hop(), command, line=ToldLine(at_line))
    with pytest.raises(NotDurable):
        await run.run()
    assert not run.exchange.evidence.crossed
    # The same command, let through, leaves its mark: so the mark would have told.
    ended(await drive(wire, sshd.hop(), command + b"2; " + command).run())
    assert mark.exists()
    assert mark.with_name("ran2").exists()


async def test_at_the_line_the_command_has_not_gone(wire: ParamikoWire, sshd: Sshd, tmp_path: Path) -> None:
    mark = tmp_path / "ran"

    async def at_line() -> None:
        probe = drive(wire, sshd.hop(), b"true")
        ended(await probe.run())
        assert not mark.exists()

    command = f"touch {shlex.quote(str(mark))}".encode()
    ended(await drive(wire, sshd.hop(), command, line=ToldLine(at_line)).run())
    assert mark.exists()


# Reuse


async def test_a_transport_that_is_kept_serves_the_next_command(wire: ParamikoWire, sshd: Sshd) -> None:
    first = await drive(wire, sshd.hop(), b"echo 1", reuse="k").run()
    run = drive(wire, sshd.hop(), b"echo 2", reuse="k")
    second = await run.run()
    ended(second)
    assert first.connection is not None
    assert second.connection is not None
    assert (first.connection.reused, second.connection.reused) == (False, True)
    assert second.connection.id == first.connection.id
    assert second.connection.identity == public(sshd.host_key).identity
    assert run.sink.stdout == b"2\n"
    other = await drive(wire, sshd.hop(), b"echo 3", reuse="other").run()
    assert other.connection is not None
    assert not other.connection.reused


async def test_a_kept_transport_that_died_is_replaced(wire: ParamikoWire, tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as server:
        ended(await drive(wire, server.hop(), reuse="k").run())
        for process in server.servers():
            os.kill(process, signal.SIGKILL)
        evidence = await drive(wire, server.hop(), reuse="k").run()
        ended(evidence)
    assert evidence.connection is not None
    assert not evidence.connection.reused


async def test_a_pin_that_changed_is_checked_on_a_kept_transport_too(wire: ParamikoWire, sshd: Sshd) -> None:
    ended(await drive(wire, sshd.hop(), reuse="k").run())
    other = HostKey.of(public(sshd.user_key).blob)
    evidence = await drive(wire, sshd.hop(host_keys=(other,)), reuse="k").run()
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.HOST_KEY_DIFFERS
