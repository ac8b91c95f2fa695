"""The client of the agent socket for programs that run on asyncio. What it says and hears is `conversation`'s."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from affidavit.ipc.client import agent_socket, connected
from affidavit.ipc.conversation import Conversation, advance
from affidavit.ipc.verdict import ClientError, ConnectionLost, NoAnswer, Verdict

if TYPE_CHECKING:
    from affidavit.ipc.conversation import Call, Flow


class AsyncClient:
    """One connection; any number of calls at a time. Owned by the loop that made it.

    A call that is cancelled is only given up here: what was asked goes on, as it does when a connection drops.
    """

    def __init__(self, *, timeout_s: float | None = None) -> None:
        """A client that is not connected yet: `agent` makes one that is."""
        self.timeout_s = timeout_s
        self.peer_pid = 0
        self._conversation = Conversation(self._run)
        self._wire = _Wire(self._conversation)
        self._batches = asyncio.Lock()

    @classmethod
    async def agent(cls, environ: Mapping[str, str] = os.environ, *, timeout_s: float | None = None) -> AsyncClient:
        """The agent socket: that of `AFFIDAVIT_SOCKET`, else the home's. Raises NotReachable."""
        client = cls(timeout_s=timeout_s)
        path = agent_socket(environ)
        connection, client.peer_pid = await asyncio.to_thread(connected, path, timeout_s)
        connection.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: client._wire, sock=connection)
        return client

    def on_notification(self, listener: Callable[[str, Any], None]) -> None:
        """Have `listener` called with method and params of each notification, as it comes."""
        self._conversation.on_notification = listener

    async def act(self, method: str, params: Mapping[str, Any]) -> Verdict:
        """As `Client.act`."""
        verdict: Verdict = await self._conversation.act(method, params)
        return verdict

    async def resume(self, operation_id: str) -> Verdict:
        """As `Client.resume`."""
        verdict: Verdict = await self._conversation.finish("action.get", {"operation_id": operation_id})
        return verdict

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """As `Client.call`."""
        (answer,) = await self._exchange([(method, params)], timeout_s, batch=False)
        if isinstance(answer, ClientError):
            raise answer
        return answer

    async def batch(self, calls: Sequence[Call], *, timeout_s: float | None = None) -> list[Any]:
        """As `Client.batch`. One batch at a time: that one is refused has no id."""
        async with self._batches:
            return await self._exchange(calls, timeout_s, batch=True) if calls else []

    def close(self) -> None:
        self._wire.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        await self._wire.closed.wait()

    async def _run(self, flow: Flow) -> Verdict:
        step = advance(flow)
        while isinstance(step, tuple):
            try:
                answer = await self.call(*step)
            except ClientError as error:
                answer = error
            step = advance(flow, answer)
        return step

    async def _exchange(self, calls: Sequence[Call], timeout_s: float | None, *, batch: bool) -> list[Any]:
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        ids, line = self._conversation.ask(calls, batch=batch)
        try:
            async with asyncio.timeout(limit_s):
                return await self._wire.answers(ids, bytes(line), batch=batch)
        except TimeoutError:
            raise NoAnswer(limit_s or 0) from None
        finally:
            self._conversation.give_up(ids)


@dataclass(slots=True, eq=False)
class _Asked:
    """One line that is out. `done` is set once each of its calls has its answer."""

    ids: Sequence[int]
    batch: bool
    done: asyncio.Future[None]
    answers: dict[int, Any] = field(default_factory=dict)


class _Wire(asyncio.Protocol):
    """The socket's side: writes lines, and hands what comes in to whoever waits for it."""

    def __init__(self, conversation: Conversation) -> None:
        self.closed = asyncio.Event()
        self._conversation = conversation
        self._transport: asyncio.Transport | None = None
        self._asked: dict[int, _Asked] = {}
        self._writable = asyncio.Event()
        self._said: ClientError | None = None
        """What answers no call in what came in last: if the broker closes now, that is why."""

    async def answers(self, ids: Sequence[int], line: bytes, *, batch: bool) -> list[Any]:
        """Write a line, and wait for the answers to the calls in it. Raises ConnectionLost, or what the broker said."""
        await self._writable.wait()
        if self.closed.is_set() or self._transport is None:
            raise self._said or ConnectionLost()
        asked = _Asked(ids, batch, asyncio.get_running_loop().create_future())
        self._asked |= dict.fromkeys(ids, asked)
        self._transport.write(line)
        try:
            await asked.done
        finally:
            for id_ in ids:
                del self._asked[id_]
        return [asked.answers[id_] for id_ in ids]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        answers = self._conversation.hear(data)
        said: ClientError | None = answers.pop(None, None)
        for id_, answer in answers.items():
            asked = self._asked.get(id_) if id_ is not None else None
            if asked is not None and id_ is not None:
                asked.answers[id_] = answer
                if len(asked.answers) == len(asked.ids) and not asked.done.done():
                    asked.done.set_result(None)
        self._said = said
        if said is not None:
            self._end(said, [asked for asked in self._asked.values() if asked.batch])
            if isinstance(said, ConnectionLost):
                self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self._writable.set()
        self._end(self._said or ConnectionLost(), self._asked.values())

    @staticmethod
    def _end(why: ClientError, waiting: Iterable[_Asked]) -> None:
        for asked in waiting:
            if not asked.done.done():
                asked.done.set_exception(why)
