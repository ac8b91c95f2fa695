"""TLS as the wire needs it: strict about how a stream ends, and clear about why a handshake failed.

The engine of OpenSSL runs over memory buffers and the socket is read and written here, so that each byte that meets
the network is one this file put there.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from affidavit.broker.terms import Stage
from affidavit.broker.wire.link import CHUNK, Ending, Link, Received, system_code
from affidavit.broker.wire.port import ClientCertificate, KeyUnusable, SetupFault, TlsTerms

_AUTHORITIES = (
    ssl.get_default_verify_paths().openssl_cafile,
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
"""Where systems keep the certificates they trust, in one file: as OpenSSL was built, Debian, Fedora, Alpine and BSD."""

_REFUSALS = frozenset(
    {
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "SSLV3_ALERT_NO_CERTIFICATE",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "TLSV1_ALERT_UNKNOWN_CA",
        "TLSV1_ALERT_ACCESS_DENIED",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    }
)
"""Alerts that refuse a client certificate, if the peer asked for one (RFC 8446, 6.2; RFC 5246, 7.2.2)."""

_CERTIFICATE_CODES = {
    9: "CERT_NOT_YET_VALID",
    10: "CERT_EXPIRED",
    62: "CERT_NAME",
    64: "CERT_NAME",
}
"""OpenSSL's X509_V_ERR_* that are told apart; every other one is CERT_UNTRUSTED."""

_CONTEXTS = 16
"""Contexts kept for private authorities: more than an operator is likely to have."""

_READS = 4
"""Reads at one go while only records without data come, such as session tickets: what follows may be there already,
but a peer that sends nothing else must not hold the loop."""

_HANDSHAKE, _APPLICATION_DATA = 22, 23
"""Record types (RFC 8446, 5.1)."""
_RECORD = 16 * 1024
_RECORD_HEAD = 5
_MESSAGE_HEAD = 4
_CERTIFICATE = 11
"""The handshake message in which a client answers a CertificateRequest."""
_SEAL = 17
"""What TLS 1.3 adds to a record's content: a byte of inner type and a 16-byte tag; no suite with another is offered."""


def build_context(authorities: str | None = None, more: bytes = b"") -> ssl.SSLContext:
    """A client context that takes nothing from the environment; 20 to 40 ms with a system's certificates, so share it.

    `authorities` is a file of PEM certificates to trust; None takes the system's. `more` are further ones. Raises
    ssl.SSLError where these are not certificates. `ssl.create_default_context` would honour SSLKEYLOGFILE,
    SSL_CERT_FILE and SSL_CERT_DIR: any program that starts ours could read or redirect traffic.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    file = authorities or next((path for path in _AUTHORITIES if os.path.isfile(path)), None)
    if file is not None:
        context.load_verify_locations(cafile=file)
    if more:
        context.load_verify_locations(cadata=more.decode("ascii", "backslashreplace"))
    return context


class AuthoritiesUnusable(Exception):
    """What is to be trusted beside the system's authorities is not PEM certificates. `system` is OpenSSL's reason."""

    def __init__(self, system: str) -> None:
        super().__init__(system)
        self.system = system


class Contexts:
    """Contexts by what they trust and show. Owned by the loop's thread, off which new ones are built.

    Those that trust more than the system are kept, by content. One that holds a client's key is not: it goes, and
    OpenSSL overwrites the key, with the last connection that uses it.
    """

    def __init__(self, shared: ssl.SSLContext | None = None) -> None:
        """`shared` serves where there are no terms; None builds it."""
        self._shared = shared or build_context()
        self._kept: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()

    async def get(self, terms: TlsTerms) -> ssl.SSLContext:
        """The context for these terms. Raises AuthoritiesUnusable, KeyUnusable, and what the key's Secret raises."""
        if terms.client is not None:
            return await asyncio.to_thread(_with_client, terms.authorities, terms.client)
        if not terms.authorities:
            return self._shared
        content = hashlib.sha256(terms.authorities).digest()
        context = self._kept.get(content)
        if context is None:
            context = await asyncio.to_thread(_trusting, terms.authorities)
            self._kept[content] = context
        self._kept.move_to_end(content)
        if len(self._kept) > _CONTEXTS:
            self._kept.popitem(last=False)
        return context


def _trusting(authorities: bytes) -> ssl.SSLContext:
    try:
        return build_context(more=authorities)
    except OSError as error:
        raise AuthoritiesUnusable(system_code(error)) from None


def _with_client(authorities: bytes, client: ClientCertificate) -> ssl.SSLContext:
    context = _trusting(authorities)
    try:
        with _as_file(client.chain) as chain:
            client.key.use(lambda key: _load(context, chain, key))
    except OSError as error:
        raise KeyUnusable(system_code(error)) from None
    return context


def _load(context: ssl.SSLContext, chain: str, key: memoryview) -> None:
    with _as_file(key) as path:
        context.load_cert_chain(chain, path, password=b"")  # Without a password OpenSSL would ask on the terminal.


@contextmanager
def _as_file(content: bytes | memoryview) -> Iterator[str]:
    """A path under which OpenSSL, which loads keys from files alone, can read `content`.

    The file is memory of this process without a name anywhere (memfd_create): no disk sees it, no other process can
    open it unless it may read our memory as well, and no program that we start inherits it. It is overwritten before
    it is let go. /proc/self/fd stays open to its own process even where that is not dumpable.
    """
    fd = os.memfd_create("affidavit", os.MFD_CLOEXEC)
    try:
        os.write(fd, content)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.pwrite(fd, bytes(len(content)), 0)
        os.close(fd)


class HandshakeFailed(Exception):
    """A handshake did not succeed; with the stage reached, a `SetupStop`."""

    def __init__(self, stage: Stage, fault: SetupFault, system: str, detail: str = "") -> None:
        super().__init__(system)
        self.stage = stage
        self.fault = fault
        self.system = system
        self.detail = detail


class TlsLink:
    """TLS over another link: a TCP stream, or a tunnel. `handshake` comes first. Owned by the loop's thread."""

    def __init__(self, under: Link, context: ssl.SSLContext, host: str) -> None:
        self.readiness = under.readiness
        self.identity: str | None = None
        self.may_refuse = False
        """The peer asked for a client certificate, and TLS 1.3 lets it refuse ours, or none, after our last word."""
        self._under = under
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._ended: Received | None = None
        """How the stream underneath ended."""
        self._sealed = memoryview(b"")
        """Records that the link underneath has not taken yet."""
        self._sealing = 0
        """How many plain bytes are handed over once it has."""
        self._open = False

    async def handshake(self) -> None:
        """Agree on keys and check the certificate. Raises HandshakeFailed, after telling the peer why."""
        flight = b""
        finished = False
        while not finished or self._sealed:
            try:
                self._tls.do_handshake()
                finished = True
            except ssl.SSLWantReadError:
                if self._ended is not None:
                    raise self._broken(self._ended.system) from None
            except ssl.SSLError as error:
                self._sealed = memoryview(self._out.read())
                self._flush_quietly()
                raise self._failure(error, flight) from None
            written = self._out.read()
            flight = written or flight
            self._sealed = memoryview(bytes(self._sealed) + written)
            try:
                self._flush()
            except OSError as error:
                raise self._broken(system_code(error)) from None
            if not finished or self._sealed:
                await self.readiness.wait(write=bool(self._sealed))
                self._fill()
        self._open = True
        certificate = self._tls.getpeercert(binary_form=True)
        assert certificate is not None, "CERT_REQUIRED lets no handshake succeed without one"
        self.identity = "sha256:" + hashlib.sha256(certificate).hexdigest()
        self.may_refuse = self._tls.version() == "TLSv1.3" and self._answered_certificate_request(flight)

    def _failure(self, error: ssl.SSLError, flight: bytes) -> HandshakeFailed:
        if isinstance(error, ssl.SSLCertVerificationError):
            system = _CERTIFICATE_CODES.get(error.verify_code, "CERT_UNTRUSTED")
            return HandshakeFailed(Stage.CERTIFICATE, SetupFault.CERTIFICATE, system, error.verify_message)
        if self._ended is not None and isinstance(error, ssl.SSLEOFError):
            return self._broken(self._ended.system)
        system = system_code(error)
        if system in _REFUSALS and self._answered_certificate_request(flight):
            return HandshakeFailed(Stage.TLS_HANDSHAKE, SetupFault.CLIENT_CERTIFICATE, system)
        return self._broken(system)

    @staticmethod
    def _broken(system: str) -> HandshakeFailed:
        return HandshakeFailed(Stage.TLS_HANDSHAKE, SetupFault.HANDSHAKE, system)

    def _answered_certificate_request(self, flight: bytes) -> bool:
        cipher = self._tls.cipher()
        return answers_certificate_request(flight, self._tls.version(), cipher[0] if cipher else "")

    def send(self, data: memoryview) -> int:
        if not self._sealed:
            part = data[:CHUNK]
            while self._sealing < len(part):
                self._sealing += self._tls.write(part[self._sealing :])
            self._sealed = memoryview(self._out.read())
        self._flush()
        if self._sealed:
            return 0
        sent, self._sealing = self._sealing, 0
        return sent

    def receive(self) -> Received:
        for _ in range(_READS):
            more = self._fill()
            found = self._read()
            if found.data or found.ending is not None or not more:
                return found
        return Received()

    def _read(self) -> Received:
        """What TLS makes of the bytes it has."""
        parts: list[bytes] = []
        ending: Ending | None = None
        system = ""
        while ending is None:
            try:
                part = self._tls.read(_RECORD)
            except ssl.SSLWantReadError:
                if self._ended is None:
                    break
                ending, system = self._ended.ending, self._ended.system
            except ssl.SSLEOFError:
                ending, system = Ending.RAGGED, "EOF"
            except ssl.SSLError as error:
                ending, system = Ending.ALERT, system_code(error)
            else:
                if part:
                    parts.append(part)
                else:
                    ending, system = Ending.CLOSE_NOTIFY, "EOF"
        if ending is not None and ending is not Ending.CLOSE_NOTIFY:
            self._open = False
        return Received(b"".join(parts), ending, system)

    def close(self) -> None:
        if self._open and not self._sealed:
            self._open = False
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass
            self._sealed = memoryview(self._out.read())
            self._flush_quietly()
        self._under.close()

    def _fill(self) -> bool:
        """Move what is there underneath into TLS; False if there is nothing more."""
        if self._ended is not None:
            return False
        found = self._under.receive()
        self._in.write(found.data)
        if found.ending in (Ending.RESET, Ending.ALERT):
            self._ended = Received(ending=Ending.RESET, system=found.system)
        elif found.ending is not None:
            self._ended = Received(ending=Ending.RAGGED, system=found.system)
            self._in.write_eof()
        return found.ending is None and bool(found.data)

    def _flush(self) -> None:
        """Move records to the link underneath as far as it takes them. Raises OSError."""
        while self._sealed and (sent := self._under.send(self._sealed)):
            self._sealed = self._sealed[sent:]

    def _flush_quietly(self) -> None:
        try:
            self._flush()
        except OSError:
            pass


def answers_certificate_request(flight: bytes, version: str | None, cipher: str) -> bool:
    """Whether a client's last flight of a handshake holds a Certificate message.

    It does if and only if the server asked for one (RFC 5246, 7.4.6; RFC 8446, 4.4.2), which OpenSSL's binding does not
    tell otherwise. In TLS 1.2 the message is first and in the clear. In TLS 1.3 it is sealed, and seen by length:
    without it the flight holds Finished alone, whose length is that of the suite's hash (RFC 8446, 4.4.4).
    """
    sealed = 0
    while len(flight) >= _RECORD_HEAD:
        kind = flight[0]
        length = int.from_bytes(flight[3:5])
        content, flight = flight[_RECORD_HEAD : _RECORD_HEAD + length], flight[_RECORD_HEAD + length :]
        if kind == _HANDSHAKE and version != "TLSv1.3":
            return content[:1] == bytes([_CERTIFICATE])
        if kind == _APPLICATION_DATA:
            sealed += length
    finished = _MESSAGE_HEAD + (48 if cipher.endswith("SHA384") else 32) + _SEAL
    return sealed > finished
