"""From a name to a connected TCP socket: resolve once, check every address, connect to one of those checked.

The address that was checked is the address that is dialled (pinned), so a second answer of the resolver cannot lead
elsewhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from affidavit.broker.wire.link import system_code

STAGGER_S = 0.25
"""Head start of one address over the next (RFC 8305, section 5: 250 ms; browsers use 250 to 300)."""

DIALLED = 16
"""Addresses of one answer that are dialled at most. All of them are checked."""


@dataclass(frozen=True, slots=True)
class Address:
    """A resolved address of a target."""

    family: socket.AddressFamily
    ip: str
    port: int
    scope: int = 0

    @property
    def peer(self) -> str:
        """As `Connection.peer` has it."""
        return f"[{self.ip}]:{self.port}" if self.family is socket.AF_INET6 else f"{self.ip}:{self.port}"

    @property
    def sockaddr(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """As `socket.connect` takes it."""
        return (self.ip, self.port, 0, self.scope) if self.family is socket.AF_INET6 else (self.ip, self.port)


Resolver = Callable[[str, int], Sequence[Address]]
"""Looks up a name, in the resolver's order of preference; it may block for long and runs off the loop.

Raises socket.gaierror.
"""

_DNS_CODES = {getattr(socket, name): name for name in dir(socket) if name.startswith("EAI_")}
NOT_FOUND = frozenset({"EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY"})
"""The resolver says that there is no such name or that it has no address. Every other code may pass."""


def dns_code(error: OSError) -> str:
    """The resolver's own code, such as EAI_AGAIN."""
    return _DNS_CODES.get(error.errno, "EAI_FAIL") if isinstance(error, socket.gaierror) else system_code(error)


def system_resolver(host: str, port: int) -> Sequence[Address]:
    """`getaddrinfo`. The name goes as bytes: as text it would pass a codec that raises errors of its own."""
    found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    return [
        Address(family, str(sockaddr[0]), port, int(sockaddr[3]) if len(sockaddr) == 4 else 0)
        for family, _, _, _, sockaddr in found
        if family in (socket.AF_INET, socket.AF_INET6)
    ]


def literal(host: str, port: int) -> Address | None:
    """The address that `host` spells out, IPv6 without brackets; None if it is a name."""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return None
    return Address(socket.AF_INET if ip.version == 4 else socket.AF_INET6, str(ip), port)


async def lookup(resolve: Resolver, host: str, port: int) -> Sequence[Address]:
    """Run one look-up off the loop. Raises what it raises.

    Each has a thread of its own that nobody waits for: a resolver that hangs can neither keep later look-ups from
    starting, as in a shared pool, nor hold up the end of the program.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[Address]] = loop.create_future()

    def settle(found: Sequence[Address], error: Exception | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(found)
        else:
            answer.set_exception(error)

    def work() -> None:
        found: Sequence[Address] = ()
        failure: Exception | None = None
        try:
            found = resolve(host, port)
        except Exception as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, found, failure)
        except RuntimeError:
            pass  # The loop has ended meanwhile, and nobody waits for the answer.

    threading.Thread(target=work, name="affidavit-dns", daemon=True).start()
    return await answer


class Unreachable(Exception):
    """No address could be connected to. `address` and `system` are of the failure that came last."""

    def __init__(self, failures: Sequence[tuple[Address, OSError]]) -> None:
        super().__init__()
        address, error = failures[-1]
        self.address = address
        self.system = system_code(error)
        self.detail = "; ".join(f"{address.peer} {system_code(error)}" for address, error in failures)


async def connect(addresses: Sequence[Address]) -> tuple[socket.socket, Address]:
    """Connect to the first address that answers (RFC 8305). Raises Unreachable.

    Families take turns; each address has a head start over the next, and a failure starts the next at once. The
    socket is non-blocking and sends small writes without delay.
    """
    waiting = deque(_interleaved(addresses)[:DIALLED])
    failures: list[tuple[Address, OSError]] = []
    if len(waiting) == 1:
        opened = await _open(waiting[0])
        if isinstance(opened, OSError):
            raise Unreachable([(waiting[0], opened)])
        return opened, waiting[0]

    started: dict[asyncio.Task[socket.socket | OSError], Address] = {}
    winner: tuple[socket.socket, Address] | None = None
    try:
        async with asyncio.TaskGroup() as group:
            running: set[asyncio.Task[socket.socket | OSError]] = set()
            while winner is None and (waiting or running):
                if waiting:
                    address = waiting.popleft()
                    task = group.create_task(_open(address))
                    started[task] = address
                    running.add(task)
                done, running = await asyncio.wait(
                    running, timeout=STAGGER_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    opened = task.result()
                    if isinstance(opened, OSError):
                        failures.append((started[task], opened))
                    elif winner is None:
                        winner = opened, started[task]
            for task in running:
                task.cancel()
    except BaseException:
        winner = None
        raise
    finally:
        _close_others(started, winner[0] if winner else None)
    if winner is None:
        raise Unreachable(failures)
    return winner


def _close_others(started: dict[asyncio.Task[socket.socket | OSError], Address], kept: socket.socket | None) -> None:
    for task in started:
        if task.done() and not task.cancelled():
            opened = task.result()
            if isinstance(opened, socket.socket) and opened is not kept:
                opened.close()


def _interleaved(addresses: Sequence[Address]) -> list[Address]:
    """Families by turns, beginning with that of the first address (RFC 8305, section 4)."""
    first = [address for address in addresses if address.family is addresses[0].family]
    other = [address for address in addresses if address.family is not addresses[0].family]
    turns = chain.from_iterable(zip_longest(first, other))
    return [address for address in turns if address is not None]


async def _open(address: Address) -> socket.socket | OSError:
    """One connection, or why there is none: an error as a value, since a task group would end the others."""
    try:
        sock = socket.socket(address.family, socket.SOCK_STREAM)
    except OSError as error:
        return error
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, address.sockaddr)
    except OSError as error:
        sock.close()
        return error
    except BaseException:
        sock.close()
        raise
    return sock
