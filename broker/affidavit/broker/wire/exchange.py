"""One HTTP exchange from the first look-up to the last byte read, reported as evidence.

    set-up  ->  last look  ->  Line.cross  ->  first byte ... last byte
                                               answer's bytes, read while the request is still written

Up to `cross` a failure is a `SetupStop`, after it a `Fault`; where an error was caught decides nothing (R13). A
connection serves one exchange: a second answer, bytes after the end and a late reset have no other call to meet. The
exception is a read whose caller names with whom it may share: `idle` says when. Nothing is ever sent twice.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing

from affidavit.broker.wire.answer import Answer, Place
from affidavit.broker.wire.dial import Resolver, system_resolver
from affidavit.broker.wire.idle import Kept, KeptLease, Key, idle_connections
from affidavit.broker.wire.link import Ending, Link, Received, system_code
from affidavit.broker.wire.port import (
    AddressCheck,
    BodySink,
    Connection,
    Fault,
    HttpEvidence,
    Line,
    PreparedRequest,
    ProxyRoute,
    SetupLimits,
    SetupStop,
    TlsTerms,
)
from affidavit.broker.wire.prepared import serialise
from affidavit.broker.wire.setup import Abandoned, Setup, Stopped
from affidavit.broker.wire.tls import Contexts
from affidavit.broker.wire.tunnel import Tunnel

_ENDED_BY = {
    Fault.CLOSED: "closed by peer",
    Fault.RAGGED: "closed by peer without close_notify",
    Fault.RESET: "reset by peer",
    Fault.WRITE_FAILED: "the write failed",
    Fault.ABANDONED: "closed by the broker",
}


class DirectWire:
    """Reaches targets over HTTP/1.1, straight or through a proxy that is named with each exchange.

    `tls` serves exchanges without terms of their own; None builds one that trusts the system's authorities. Owned by
    the loop's thread.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, resolve: Resolver = system_resolver) -> None:
        self._contexts = Contexts(tls)
        self._resolve = resolve
        self._idle = idle_connections()

    def exchange(
        self,
        request: PreparedRequest,
        *,
        line: Line,
        sink: BodySink,
        allow: AddressCheck,
        limits: SetupLimits,
        deadline: float,
        close_completes: bool = False,
        tls: TlsTerms | None = None,
        proxy: ProxyRoute | None = None,
        reuse: str | None = None,
    ) -> SinkExchange:
        """As `HttpWire.exchange`. Raises ValueError for a request that is not valid HTTP."""
        flight = self.flight(
            request,
            line=line,
            allow=allow,
            limits=limits,
            deadline=deadline,
            close_completes=close_completes,
            tls=tls,
            proxy=proxy,
            reuse=reuse,
        )
        return SinkExchange(flight, sink)

    def flight(
        self,
        request: PreparedRequest,
        *,
        line: Line,
        allow: AddressCheck,
        limits: SetupLimits,
        deadline: float,
        close_completes: bool = False,
        tls: TlsTerms | None = None,
        proxy: ProxyRoute | None = None,
        reuse: str | None = None,
    ) -> Flight:
        """The same, for who pulls the body instead of giving a sink."""
        if proxy is not None and request.scheme != "https":
            raise ValueError("only https goes through a proxy")
        outgoing, framing = serialise(request)
        setup = Setup(
            scheme=request.scheme,
            host=request.host,
            port=request.port,
            allow=allow,
            limits=limits,
            deadline=deadline,
            contexts=self._contexts,
            terms=tls or TlsTerms(),
            resolve=self._resolve,
            tunnel=Tunnel(proxy, request.host, request.port) if proxy is not None else None,
        )
        lease = None
        if reuse is not None:
            route = proxy.authority if proxy is not None else None
            lease = self._idle.lease(Key(reuse, request.scheme, request.host, request.port, route))
        answer = Answer(request.method, framing, close_completes=close_completes)
        return Flight(outgoing, answer, setup, line, lease)

    def close_idle(self) -> None:
        """As `HttpWire.close_idle`."""
        self._idle.close()


class Flight:
    """One exchange in two steps: `start`, then `parts` to the end. The link is closed when either ends it.

    Remote faults are evidence; what the line raises comes through, as does cancellation, and both close the link.
    """

    def __init__(self, outgoing: bytes, answer: Answer, setup: Setup, line: Line, lease: KeptLease | None) -> None:
        self._outgoing = memoryview(outgoing)
        """What the socket has not taken yet; the request and its secret are let go with the last byte."""
        self._answer = answer
        self._setup: Setup | None = setup
        self._line = line
        self._lease = lease
        self._link: Link | None = None
        self._ip = ""
        """Where the link leads."""
        self._connection: Connection | None = None
        self._stopped: SetupStop | None = None
        self._crossed = False
        self._sent = 0
        self._request_complete = False
        self._write_failed: str | None = None
        self._before = Received()
        """What came before our first byte went, until it is read."""
        self._before_bytes = 0
        self._early = False
        self._head_told = False
        self._alert: str | None = None
        self._abandoned = False

    @property
    def evidence(self) -> HttpEvidence:
        """What is known at this moment."""
        answer = self._answer
        return HttpEvidence(
            crossed=self._crossed,
            stopped=self._stopped,
            connection=self._connection,
            bytes_sent=self._sent,
            request_complete=self._request_complete,
            answer_before_request=answer.anything_final and answer.starts_at < self._before_bytes,
            status_line=answer.status_line,
            anything_final=answer.anything_final,
            status=answer.status,
            headers=answer.headers,
            early=self._early,
            body_bytes=answer.body_bytes,
            complete=answer.complete,
            completion=answer.completion if answer.complete else None,
            fault=self._fault,
            observation=self._observation,
            diagnostic=answer.diagnostic,
        )

    @property
    def ended(self) -> bool:
        return self._stopped is not None or self._abandoned or self._answer.ended

    async def start(self) -> list[bytes]:
        """Set up, cross the line, and go on until the final head is known or the exchange has ended.

        Returns the parts of the body that came with the head.
        """
        try:
            await self._reach_the_line()
            parts: list[bytes] = []
            while not self.ended and self._answer.status is None:
                parts = await self._step()
        except BaseException:
            self._shut()
            raise
        if self.ended:
            self._shut()
        return parts

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """What is still to come of the body, framing removed, until the exchange has ended."""
        try:
            while not self.ended:
                for part in await self._step():
                    yield part
        finally:
            self._shut()

    def close(self) -> None:
        """Close the connection now, in whatever step the exchange is. After its end this does nothing.

        While the line is being crossed the record may already be durable: that is waited for, and nothing is sent.
        """
        if self.ended:
            return
        self._abandoned = True
        if self._setup is not None:
            self._setup.abandon()
        elif self._link is not None and not self._link.readiness.wake():
            self._shut()

    @property
    def _fault(self) -> Fault | None:
        fault = self._answer.fault
        if fault is None:
            return Fault.ABANDONED if self._abandoned and not self._answer.complete else None
        if self._write_failed is not None and fault in (Fault.CLOSED, Fault.RAGGED, Fault.RESET):
            return Fault.WRITE_FAILED
        return fault

    @property
    def _observation(self) -> str | None:
        fault = self._fault
        if fault is None:
            return None
        if self._answer.observation is not None:
            return self._answer.observation
        what = _ENDED_BY[fault]
        if fault is Fault.WRITE_FAILED:
            what += f" ({self._write_failed})"
        elif self._alert is not None:
            what = f"ended by TLS ({self._alert})"
        return f"{what} {self._where}"

    @property
    def _where(self) -> str:
        if self._answer.place is Place.BODY:
            return "inside the response body"
        if self._answer.place is Place.HEAD:
            return "inside the response head"
        if self._request_complete:
            return "after request write"
        return "during request write" if self._sent else "before request write"

    async def _reach_the_line(self) -> None:
        """Set up and cross, unless either stops the exchange."""
        assert self._setup is not None, "an exchange is started once"
        found = Received()
        try:
            setup = self._setup
            kept = self._lease.take(lambda one: setup.permits(one.ip)) if self._lease is not None else None
            if kept is not None:
                self._link, self._connection, self._ip = kept.link, kept.connection, kept.ip
            else:
                self._link, address = await self._setup.connect()
                found = self._setup.last_look(self._link)
                self._ip = address.ip
                self._connection = self._setup.described(self._link, address)
        except Stopped as stopped:
            self._stopped = stopped.stop
            return
        except Abandoned:
            return
        finally:
            self._setup = None
        await self._line.cross(self._connection)
        self._crossed = True
        if self._abandoned:
            return
        # Durability took its time: what came meanwhile cannot answer a request that has not gone either.
        late = self._link.receive()
        self._before = Received(found.data + late.data, late.ending, late.system)
        self._before_bytes = len(self._before.data)

    async def _step(self) -> list[bytes]:
        """Write what the socket takes, then read once something is there. Returns the parts of the body that came."""
        assert self._link is not None
        received, self._before = self._before, Received()
        if received.ending is None:
            self._write(self._link)
        if not received.data and received.ending is None:
            readable = await self._link.readiness.wait(write=len(self._outgoing) > 0)
            if self._abandoned or not readable:
                return []
            received = self._link.receive()
        return self._take(received)

    def _write(self, link: Link) -> None:
        """Hand over one chunk, so that between two of them an answer is seen."""
        if not self._outgoing:
            return
        try:
            sent = link.send(self._outgoing)
        except OSError as error:
            # An answer may be there all the same, such as a 413: reading goes on until the stream ends.
            self._write_failed = system_code(error)
            self._outgoing = memoryview(b"")
            return
        self._sent += sent
        self._outgoing = self._outgoing[sent:]
        if not self._outgoing:
            self._outgoing = memoryview(b"")  # An empty end of the old view would keep the request alive.
            self._request_complete = True
            self._line.request_sent(self._sent)

    def _take(self, received: Received) -> list[bytes]:
        answer = self._answer
        parts = answer.feed(received.data)
        if answer.status is not None and answer.head_ends_at is not None and not self._head_told:
            self._head_told = True
            self._early = not self._request_complete or answer.head_ends_at <= self._before_bytes
            self._line.response_started(answer.status, answer.headers)
        if received.ending is not None:
            self._alert = received.system if received.ending is Ending.ALERT else None
            answer.end(received.ending)
        return parts

    def _shut(self) -> None:
        """Part with the link; an exchange that had not ended has been abandoned."""
        if not self.ended:
            self._abandoned = True
        self._outgoing = memoryview(b"")
        if self._link is None:
            return
        if self._lease is not None and self._connection is not None and self._serves_again:
            link, self._link = self._link, None
            self._lease.give(Kept(link, self._connection, self._ip))
        else:
            self._link.close()

    @property
    def _serves_again(self) -> bool:
        """Whether nothing of this exchange can meet the next one on its connection: its answer came in its turn, and to
        an exact end."""
        return not self._early and self._before_bytes == 0 and self._answer.leaves_open


class SinkExchange:
    """The engine's way in: a flight whose body goes to a sink. As `port.Exchange`."""

    def __init__(self, flight: Flight, sink: BodySink) -> None:
        self._flight = flight
        self._sink = sink

    @property
    def evidence(self) -> HttpEvidence:
        return self._flight.evidence

    async def run(self) -> HttpEvidence:
        """As `Exchange.run`, called once. What the sink raises comes through too, and the connection is closed."""
        try:
            for part in await self._flight.start():
                await self._sink.write(part)
            async with aclosing(self._flight.parts()) as parts:
                async for part in parts:
                    await self._sink.write(part)
        finally:
            self._flight.close()
        return self._flight.evidence

    def close(self) -> None:
        self._flight.close()
