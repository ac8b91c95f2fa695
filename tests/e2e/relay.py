"""A TCP relay on loopback that does something to a connection once so many of its bytes have passed: a network that can
be cut, or go silent, and a clock that counts bytes for whoever wants to kill one of its ends.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from tests.e2e.rig import LIMIT_S


class Way(StrEnum):
    TO_SERVER = "to server"
    TO_CLIENT = "to client"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done once `after` bytes have gone `way`; those behind them wait meanwhile."""

    way: Way
    after: int
    act: Callable[[Link], object]


@dataclass(slots=True)
class Link:
    """One connection, in a thread of its own, in which a plan acts too."""

    client: socket.socket
    server: socket.socket
    plan: Plan | None
    passed: dict[Way, int] = field(default_factory=lambda: dict.fromkeys(Way, 0))
    """Bytes so far."""
    reached: threading.Event = field(default_factory=threading.Event)
    """The plan has begun to act."""
    release: threading.Event = field(default_factory=threading.Event)

    def fin(self) -> None:
        """Both ends see an orderly close."""
        for end in (self.client, self.server):
            end.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        for end in (self.client, self.server):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()

    def hold(self) -> None:
        """Nothing passes, either way, until `release` is set."""
        self.release.wait(LIMIT_S)

    def run(self) -> None:
        ways = {self.client: (Way.TO_SERVER, self.server), self.server: (Way.TO_CLIENT, self.client)}
        try:
            while ways:
                for source in select.select([*ways], [], [])[0]:
                    data = source.recv(65536)
                    way, sink = ways[source]
                    if data:
                        self._pass_on(way, sink, data)
                    else:
                        del ways[source]
                        sink.shutdown(socket.SHUT_WR)
        except (OSError, ValueError):
            pass  # cut
        finally:
            self.client.close()
            self.server.close()

    def _pass_on(self, way: Way, sink: socket.socket, data: bytes) -> None:
        plan = self.plan
        if plan is not None and plan.way is way and self.passed[way] + len(data) >= plan.after:
            first = plan.after - self.passed[way]
            sink.sendall(data[:first])
            self.passed[way], data = plan.after, data[first:]
            self.plan = None
            self.reached.set()
            plan.act(self)
        sink.sendall(data)
        self.passed[way] += len(data)


class Relay:
    """Leads to `port` on loopback. `plan` is of the next connection alone."""

    def __init__(self, port: int) -> None:
        self.plan: Plan | None = None
        self.links: list[Link] = []
        self._leads_to = port
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(LIMIT_S)
        for link in self.links:
            link.release.set()
        for thread in self._threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._leads_to))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plan, self.plan = self.plan, None
            link = Link(client, server, plan)
            thread = threading.Thread(target=link.run, daemon=True)
            self.links.append(link)
            self._threads.append(thread)
            thread.start()
