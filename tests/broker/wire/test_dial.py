from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.broker.wire.driver import BOUND_S

from affidavit.broker.wire import dial
from affidavit.broker.wire.dial import Address

V4, V6 = socket.AF_INET, socket.AF_INET6


@contextmanager
def listening(host: str, port: int = 0, backlog: int = 8) -> Iterator[socket.socket]:
    with socket.socket(V6 if ":" in host else V4) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(backlog)
        yield sock


@contextmanager
def black_hole(host: str) -> Iterator[int]:
    """A port whose queue is full: a connection to it neither succeeds nor fails."""
    with ExitStack() as stack:
        port: int = stack.enter_context(listening(host, backlog=0)).getsockname()[1]
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex((host, port))
        yield port


def test_literals_are_no_names() -> None:
    assert dial.literal("127.0.0.1", 80) == Address(V4, "127.0.0.1", 80)
    assert dial.literal("2001:DB8::1", 443) == Address(V6, "2001:db8::1", 443)
    for name in ("localhost", "2130706433", "127.1", "0x7f000001", "target.test"):
        assert dial.literal(name, 80) is None


def test_peer_is_written_as_in_a_url() -> None:
    assert Address(V4, "203.0.113.7", 443).peer == "203.0.113.7:443"
    assert Address(V6, "2001:db8::1", 443).peer == "[2001:db8::1]:443"


def test_system_resolver_knows_loopback() -> None:
    found = dial.system_resolver("localhost", 80)
    assert {address.ip for address in found} <= {"127.0.0.1", "::1"}
    assert all(address.port == 80 for address in found)


@pytest.mark.parametrize("name", ["a" * 64 + ".test", "a..test", ".test"])
def test_names_that_no_resolver_takes_are_errors_of_the_resolver(name: str) -> None:
    with pytest.raises(socket.gaierror) as error:
        dial.system_resolver(name, 80)
    assert dial.dns_code(error.value).startswith("EAI_")


def test_codes_of_the_resolver_keep_their_names() -> None:
    assert dial.dns_code(socket.gaierror(socket.EAI_AGAIN, "")) == "EAI_AGAIN"
    assert dial.dns_code(socket.gaierror(socket.EAI_NONAME, "")) == "EAI_NONAME"
    assert dial.dns_code(socket.gaierror(-9999, "")) == "EAI_FAIL"
    assert dial.dns_code(OSError(24, "")) == "EMFILE"


async def test_lookup_that_hangs_can_be_left() -> None:
    gate = threading.Event()
    entered = asyncio.Event()
    loop = asyncio.get_running_loop()

    def resolve(host: str, port: int) -> list[Address]:
        loop.call_soon_threadsafe(entered.set)
        gate.wait(BOUND_S)
        return []

    task = asyncio.ensure_future(dial.lookup(resolve, "slow.test", 80))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # Others go on although the first still hangs.
    found = await dial.lookup(lambda host, port: [Address(V4, "127.0.0.1", port)], "quick.test", 80)
    assert found == [Address(V4, "127.0.0.1", 80)]
    gate.set()


async def test_dead_first_address_costs_a_head_start_only() -> None:
    with black_hole("127.0.0.2") as port, listening("127.0.0.1", port):
        async with asyncio.timeout(BOUND_S):
            sock, address = await dial.connect([Address(V4, "127.0.0.2", port), Address(V4, "127.0.0.1", port)])
        with sock:
            assert address.ip == "127.0.0.1"
            assert sock.getpeername() == ("127.0.0.1", port)


async def test_refusal_starts_the_next_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "STAGGER_S", 10 * BOUND_S)
    with listening("127.0.0.1") as listener:
        port = listener.getsockname()[1]
        async with asyncio.timeout(BOUND_S):
            sock, address = await dial.connect([Address(V4, "127.0.0.3", port), Address(V4, "127.0.0.1", port)])
        with sock:
            assert address.ip == "127.0.0.1"


async def test_every_failure_is_kept_and_the_last_is_named() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(dial.Unreachable) as unreachable:
            await dial.connect([Address(V4, "127.0.0.3", port), Address(V4, "127.0.0.1", port)])
    assert unreachable.value.system == "ECONNREFUSED"
    assert unreachable.value.address.ip == "127.0.0.1"
    assert unreachable.value.detail == f"127.0.0.3:{port} ECONNREFUSED; 127.0.0.1:{port} ECONNREFUSED"


@pytest.mark.parametrize("count", [1, 3])
async def test_cancelling_leaves_no_socket_open(count: int) -> None:
    # An open socket that is dropped warns, and warnings are errors.
    with black_hole("127.0.0.2") as port:
        task = asyncio.ensure_future(dial.connect([Address(V4, "127.0.0.2", port)] * count))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_when_several_connect_at_once_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[socket.socket] = []
    both = asyncio.Event()

    async def connect_together(address: Address) -> socket.socket:
        opened.append(socket.socket())
        if len(opened) == 2:
            both.set()
        await both.wait()
        return opened[-1] if address.port == 1 else opened[0]

    monkeypatch.setattr(dial, "STAGGER_S", 0)
    monkeypatch.setattr(dial, "_open", connect_together)
    sock, _ = await dial.connect([Address(V4, "127.0.0.1", 1), Address(V4, "127.0.0.1", 2)])
    assert sock.fileno() != -1
    assert [other.fileno() for other in opened if other is not sock] == [-1]
    sock.close()


async def test_connection_sends_small_writes_at_once() -> None:
    with listening("::1") as listener:
        sock, _ = await dial.connect([Address(V6, "::1", listener.getsockname()[1])])
        with sock:
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
            assert not sock.getblocking()


def test_families_take_turns() -> None:
    six = [Address(V6, f"2001:db8::{n}", 1) for n in range(3)]
    four = [Address(V4, f"203.0.113.{n}", 1) for n in range(2)]
    assert dial._interleaved([*six, *four]) == [six[0], four[0], six[1], four[1], six[2]]
    assert dial._interleaved([*four, *six]) == [four[0], six[0], four[1], six[1], six[2]]
