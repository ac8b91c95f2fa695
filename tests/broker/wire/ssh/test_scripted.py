"""The scripted wire keeps the order of the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.broker.wire.driver import ToldLine
from tests.broker.wire.ssh.driver import KeptOutput

from affidavit.broker.secret import Secret
from affidavit.broker.terms import Stage
from affidavit.broker.wire.port import Fault, SetupFault, SetupStop
from affidavit.broker.wire.ssh.port import (
    ExitSignal,
    HostKey,
    PasswordLogin,
    Probed,
    SshHop,
    SshLimits,
    SshRequest,
    SshWire,
    StdinBroken,
    Stream,
)
from affidavit.broker.wire.ssh.scripted import (
    Accept,
    Broken,
    Close,
    Cross,
    Eof,
    Exit,
    Hang,
    Output,
    Refuse,
    ScriptedSshExchange,
    ScriptedSshWire,
    Stdin,
    Step,
    Stop,
    result,
)

HOP = SshHop("h", 22, "u", (), PasswordLogin(Secret(b"x")))


def play(
    *steps: Step, stdin: Any = b"", line: ToldLine | None = None
) -> tuple[ScriptedSshExchange, ToldLine, KeptOutput]:
    wire = ScriptedSshWire(steps)
    as_wire: SshWire = wire
    line, sink = line or ToldLine(), KeptOutput()
    as_wire.exchange(
        SshRequest(HOP, b"cmd", stdin),
        line=line,
        sink=sink,
        allow=lambda address: True,
        limits=SshLimits(),
        deadline=0.0,
        reuse="k",
    )
    assert wire.reuses == ["k"]
    return wire.exchanges[0], line, sink


async def test_an_ordinary_command() -> None:
    exchange, line, sink = play(*result(3, b"out", b"err"), stdin=b"in")
    evidence = await exchange.run()
    assert line.told == ["cross", "response_started", "request_sent"]
    assert line.sent == 5
    assert (evidence.exit_status, evidence.completion, evidence.complete) == (3, "exit+eof+close", True)
    assert (sink.stdout, sink.stderr) == (b"out", b"err")
    assert (evidence.stdout_bytes, evidence.stderr_bytes, evidence.stdin_bytes) == (3, 3, 2)


@pytest.mark.parametrize(
    ("steps", "completion", "fault"),
    [
        ((Cross(), Refuse()), "refused", None),
        ((Cross(), Accept(), Exit(signal=ExitSignal("KILL", False, "")), Eof(), Close()), "signal+eof+close", None),
        ((Cross(), Accept(), Exit(), Eof(), Broken()), "exit+eof", None),
        ((Cross(), Accept(), Exit(), Broken()), None, Fault.RESET),
        ((Cross(), Accept(), Eof(), Close()), None, Fault.CLOSED),
        ((Cross(), Accept(), Exit(), Eof(), Broken(Fault.CONTRADICTION, violation="two")), None, Fault.CONTRADICTION),
        ((Cross(), Accept()), None, Fault.CLOSED),
    ],
)
async def test_ends(steps: tuple[Step, ...], completion: str | None, fault: Fault | None) -> None:
    exchange, _, _ = play(*steps)
    evidence = await exchange.run()
    assert (evidence.completion, evidence.fault) == (completion, fault)
    assert evidence.complete == (completion is not None)


async def test_a_stop_is_not_attempted() -> None:
    stop = SetupStop(None, Stage.DNS, SetupFault.NOT_FOUND, "EAI_NONAME")
    exchange, line, _ = play(Stop(stop))
    evidence = await exchange.run()
    assert (evidence.stopped, evidence.crossed, line.told) == (stop, False, [])


async def test_close_and_signal() -> None:
    hang = Hang()
    exchange, _, _ = play(Cross(), Accept(), hang)
    assert not exchange.signal("TERM")
    running = asyncio.ensure_future(exchange.run())
    await hang.reached.wait()
    assert exchange.signal("TERM")
    exchange.close()
    evidence = await running
    assert (evidence.fault, exchange.signals) == (Fault.ABANDONED, ["TERM"])
    assert not exchange.signal("TERM")


async def test_a_broken_stream() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"half"
        raise StdinBroken

    exchange, line, _ = play(Cross(), Accept(), Stdin(), Exit(), Eof(), Close(), stdin=parts())
    evidence = await exchange.run()
    assert (evidence.stdin_bytes, evidence.stdin_broken, evidence.stdin_complete) == (4, True, False)
    assert bytes(exchange.stdin) == b"half"
    assert "request_sent" not in line.told


async def test_nothing_comes_before_the_line() -> None:
    exchange, _, _ = play(Output(b"x", Stream.STDOUT))
    with pytest.raises(AssertionError):
        await exchange.run()


async def test_what_the_line_raises_comes_through() -> None:
    async def at_line() -> None:
        raise KeyError

    exchange, _, _ = play(*result(), line=ToldLine(at_line))
    with pytest.raises(KeyError):
        await exchange.run()
    assert not exchange.evidence.crossed


async def test_probes() -> None:
    found = Probed(HostKey("ssh-ed25519", b"blob"), "127.0.0.1:22")
    wire = ScriptedSshWire(probes=[found])
    assert await wire.probe(HOP, allow=lambda address: True, limits=SshLimits(), deadline=0.0) == found
    assert wire.probed == [HOP]
    assert wire.crossed == 0
    wire.close_idle()
    assert wire.idle_closed == 1
