"""A running home: its lock, its broker, both its sockets, put together for `serve` and for the tray.

Before `init` there is nothing to run: no lock is taken and no socket made. The end comes in this order: no new
connections; the broker ends what is not dispatched and waits for what is, and every call gets its answer; the sockets
close; the broker's files close; the lock goes (architecture, Lock, quit, crash).
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from affidavit.broker.api import AgentApi, OperatorApi
from affidavit.broker.home import HomeLock, HomeState, Places
from affidavit.broker.limits import Limits
from affidavit.ipc import proc
from affidavit.ipc.agent_calls import AgentCalls
from affidavit.ipc.operator_calls import About, OperatorCalls
from affidavit.ipc.server import Server
from affidavit.ipc.sessions import Sessions

ANSWERING_S = 2.0
"""After the broker has ended every call: how long answers may still take to be read."""

DESCRIPTORS = 8_192

SWITCH_S = 0.0005
"""How long one thread may keep the interpreter while another waits for it."""


class NotInitialised(Exception):
    """There is no vault and journal to open. `remedy` is the next step."""

    def __init__(self, state: HomeState, places: Places) -> None:
        if state is HomeState.ABSENT:
            super().__init__(f"There is no vault in {places.data} yet.")
            self.remedy = "Create it: affidavit init"
        else:
            super().__init__(f"Some files of the vault in {places.data} are missing.")
            self.remedy = "Put them back from a copy, or move the directory away and run: affidavit init"


class Broker(Protocol):
    """What a host needs of a broker."""

    @property
    def agent(self) -> AgentApi: ...

    @property
    def operator(self) -> OperatorApi: ...

    @property
    def limits(self) -> Limits: ...

    async def shutdown(self, why: str) -> None:
        """End what is not dispatched and wait for what is. When it returns, every call has its answer."""

    async def close(self) -> None:
        """Close journal and vault. Nothing is called afterwards."""


OpenBroker = Callable[[Places], Awaitable[Broker]]
"""Open vault and journal of a home whose lock is held, recover, and be ready."""


@dataclass(frozen=True, slots=True)
class Host:
    """A home that runs."""

    places: Places
    broker: Broker


def home_name(places: Places) -> str:
    """The one directory that a person knows a home by: the one that was named, else that of the vault."""
    return str(places.data.parent if places.named_by else places.data)


@asynccontextmanager
async def running(
    places: Places,
    *,
    open_broker: OpenBroker,
    raise_window: Callable[[], bool] = lambda: False,
    program: str,
) -> AsyncIterator[Host]:
    """Run a home until the context is left; clients can connect once it is entered. On the loop that owns the broker.

    `raise_window` raises the window and says whether there is one. `program` is what a person knows this process by.
    Raises NotInitialised, HomeRefused, HomeBusy, SocketTaken, and whatever
    `open_broker` raises.
    """
    state = places.state
    if state is not HomeState.INITIALISED:
        raise NotInitialised(state, places)
    places.prepare()
    with HomeLock(places, program=program):
        _allow_descriptors()
        broker = await open_broker(places)
        try:
            ours = proc.ours()
            limits = broker.limits
            sessions = Sessions(broker.agent, asyncio.get_running_loop(), proc.boot_id())
            agent = Server(
                places.agent_socket,
                AgentCalls(broker.agent, sessions, ours),
                connections=limits.connections,
                line=limits.line,
            )
            about = About(home_name(places), places.named_by, program)
            operator = Server(
                places.operator_socket,
                OperatorCalls(broker.operator, about, ours, raise_window),
                connections=limits.connections,
                line=limits.line,
            )
            try:
                agent.start()
                operator.start()
                with _interpreter():
                    yield Host(places, broker)
            finally:
                agent.stop_accepting()
                operator.stop_accepting()
                await broker.shutdown("quit")
                await agent.close(grace_s=ANSWERING_S)
                await operator.close(grace_s=ANSWERING_S)
                sessions.close()
        finally:
            await broker.close()


@contextmanager
def _interpreter() -> Iterator[None]:
    """Settings of the interpreter while a broker runs.

    Loop and journal hand each other work several times an action. With the default of 5 ms whoever is woken may wait
    for the interpreter longer than a commit takes. What is loaded by now stays: no collection of garbage looks at it.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def _allow_descriptors() -> None:
    """Connections, sessions and targets each take some: use what the system allows this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
