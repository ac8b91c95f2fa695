"""Certificates that the operator hands in: read, judged, and brought to one spelling. Pure."""

from __future__ import annotations

from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from affidavit.broker.moment import SECOND
from affidavit.broker.terms import Micros

FILE_MAX = 64 * 1024
"""Bytes of a file with certificates."""
CERTIFICATES_MAX = 16
SUBJECT_MAX = 256


class BadCertificate(ValueError):
    """The file or the key is not what it must be; the text is a sentence for a person and quotes nothing of a key."""


def chain(text: str) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM file in their order, 1 to CERTIFICATES_MAX. Raises BadCertificate."""
    if len(text) > FILE_MAX:
        raise BadCertificate(f"The file with certificates is larger than {FILE_MAX // 1024} KiB.")
    try:
        found = tuple(x509.load_pem_x509_certificates(text.encode()))
    except ValueError:
        raise BadCertificate("The file holds no certificate in PEM, or one that does not parse.") from None
    if len(found) > CERTIFICATES_MAX:
        raise BadCertificate(f"The file holds more than {CERTIFICATES_MAX} certificates.")
    return found


def pem(certificates: tuple[x509.Certificate, ...]) -> str:
    """These certificates alone in PEM: whatever else was in their file, a key perhaps, is not kept."""
    return "".join(each.public_bytes(Encoding.PEM).decode("ascii") for each in certificates)


def subject(certificate: x509.Certificate) -> str:
    """The subject in the form of RFC 4514, cut."""
    return certificate.subject.rfc4514_string()[:SUBJECT_MAX]


def not_after(certificate: x509.Certificate) -> Micros:
    return _micros(certificate.not_valid_after_utc)


def check_authority(certificate: x509.Certificate, now: Micros) -> None:
    """BadCertificate unless this certificate may stand as an authority now (RFC 5280, 4.2.1.3 and 4.2.1.9)."""
    try:
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        signs = _may_sign(certificate.extensions)
    except x509.ExtensionNotFound:
        raise BadCertificate("A certificate in the file is no authority: it does not say CA:TRUE.") from None
    except ValueError:
        raise BadCertificate("A certificate in the file has extensions that do not parse.") from None
    if not basic.ca:
        raise BadCertificate("A certificate in the file is no authority: it says CA:FALSE.")
    if not signs:
        raise BadCertificate("A certificate in the file may not sign others (key usage).")
    if now >= not_after(certificate):
        raise BadCertificate("A certificate in the file has expired.")
    if now < _micros(certificate.not_valid_before_utc):
        raise BadCertificate("A certificate in the file is not valid yet.")


def check_key(certificate: x509.Certificate, key: bytearray) -> None:
    """BadCertificate unless `key` is the certificate's private key, in PEM without a passphrase of its own."""
    try:
        private = load_pem_private_key(key, password=None)
    except TypeError:
        raise BadCertificate(
            "The key has a passphrase of its own; the vault protects it. Decrypt it first: openssl pkey -in FILE"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadCertificate("The secret is no private key in PEM, or one of a kind that TLS does not use.") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if private.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise BadCertificate("The key does not belong to the certificate (the first one in its file).")


def _may_sign(extensions: x509.Extensions) -> bool:
    try:
        return extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        return True


def _micros(moment: datetime) -> Micros:
    return Micros(int(moment.timestamp()) * SECOND)
