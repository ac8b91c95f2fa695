"""What counts as a certificate authority."""

import pytest
from cryptography import x509
from tests.broker.vault.authority import Authority

from affidavit.broker.moment import after
from affidavit.broker.terms import Micros
from affidavit.broker.vault.certificates import BadCertificate, chain, check_authority, not_after, subject

NOW = Micros(1_796_000_000_000_000)
ROOT = x509.BasicConstraints(ca=True, path_length=None)


def usage(*, signs: bool) -> x509.KeyUsage:
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        encipher_only=False,
        decipher_only=False,
        **dict.fromkeys(others, False),
    )


def test_an_authority() -> None:
    made = Authority("private root", NOW).certificate
    check_authority(made, NOW)
    check_authority(Authority("with usage", NOW, extensions=(ROOT, usage(signs=True))).certificate, NOW)
    assert subject(made) == "CN=private root"
    assert not_after(made) == after(NOW, 3600)


@pytest.mark.parametrize(
    ("authority", "says"),
    [
        (Authority("bare", NOW, extensions=()), "does not say CA:TRUE"),
        (Authority("leaf", NOW, extensions=(x509.BasicConstraints(ca=False, path_length=None),)), "CA:FALSE"),
        (Authority("no signer", NOW, extensions=(ROOT, usage(signs=False))), "may not sign"),
        (Authority("old", NOW, lasts_s=0), "has expired"),
        (Authority("young", NOW, starts_s=1), "not valid yet"),
    ],
)
def test_what_is_no_authority_now(authority: Authority, says: str) -> None:
    with pytest.raises(BadCertificate, match=says):
        check_authority(authority.certificate, NOW)


def test_a_file_is_read_in_its_order() -> None:
    first, second = Authority("a", NOW), Authority("b", NOW)
    assert [subject(each) for each in chain(f"# two\n{first.pem}\n{second.pem}")] == ["CN=a", "CN=b"]
    for text in ("", "nonsense", first.pem.replace("MII", "XXX", 1)):
        with pytest.raises(BadCertificate):
            chain(text)
