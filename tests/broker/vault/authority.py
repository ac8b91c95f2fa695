"""A certificate authority for tests, whose certificates live around a given time."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from affidavit.broker.terms import Micros


class Authority:
    """Self-signed; `extensions` in place of those that make it one."""

    def __init__(
        self,
        name: str,
        now: Micros,
        *,
        starts_s: float = -3600,
        lasts_s: float = 3600,
        extensions: tuple[x509.ExtensionType, ...] = (x509.BasicConstraints(ca=True, path_length=None),),
    ) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.certificate = self._signed(self._name, self._key, now, starts_s, lasts_s, extensions)
        self.pem = self.certificate.public_bytes(Encoding.PEM).decode()

    def client(self, name: str, now: Micros, *, lasts_s: float = 3600) -> tuple[str, str]:
        """Certificate and key in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._signed(_name(name), key, now, -3600, lasts_s, ())
        return made.public_bytes(Encoding.PEM).decode(), key_pem(key)

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        now: Micros,
        starts_s: float,
        lasts_s: float,
        extensions: tuple[x509.ExtensionType, ...],
    ) -> x509.Certificate:
        at = datetime.fromtimestamp(now // 1_000_000, UTC)
        builder = x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=at + timedelta(seconds=starts_s),
            not_valid_after=at + timedelta(seconds=lasts_s),
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=True)
        return builder.sign(self._key, SHA256())


def key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
