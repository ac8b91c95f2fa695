"""Signatures against the examples that AWS publishes, and what they are made of."""

from datetime import UTC, datetime

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.utils import percent_encode

from affidavit.broker.fingerprint import HttpDispatch
from affidavit.broker.sigv4 import signed
from affidavit.broker.terms import Micros
from affidavit.broker.vault.kinds import SigV4Options

Headers = tuple[tuple[str, str], ...]


def dispatch(method: str, url: str, headers: Headers = (), body: bytes = b"") -> HttpDispatch:
    return HttpDispatch(method, url, headers, body, "cred_1", 1, "sigv4", "c", "sha256:d", None)


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> Micros:
    return Micros(int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()) * 1_000_000)


SUITE_AT = at(2015, 8, 30, 12, 36)
SUITE_KEY = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
SUITE = SigV4Options("AKIDEXAMPLE", "us-east-1", "service")
HOST = "https://example.amazonaws.com"
FORM = ("Content-Type", "application/x-www-form-urlencoded")


@pytest.mark.parametrize(
    ("asked", "names", "signature"),
    [
        pytest.param(
            dispatch("GET", f"{HOST}/"),
            "host;x-amz-date",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            id="get-vanilla",
        ),
        pytest.param(
            dispatch("POST", f"{HOST}/"),
            "host;x-amz-date",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            id="post-vanilla",
        ),
        pytest.param(
            dispatch("GET", f"{HOST}/?Param2=value2&Param1=value1"),
            "host;x-amz-date",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            id="get-vanilla-query-order-key-case",
        ),
        pytest.param(
            dispatch("GET", f"{HOST}/", (("My-Header1", "value2"), ("My-Header1", "value2"), ("My-Header1", "value1"))),
            "host;my-header1;x-amz-date",
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
            id="get-header-key-duplicate",
        ),
        pytest.param(
            dispatch("GET", f"{HOST}/", (("My-Header1", " value1"), ("My-Header2", ' "a   b   c"'))),
            "host;my-header1;my-header2;x-amz-date",
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            id="get-header-value-trim",
        ),
        pytest.param(
            dispatch("POST", f"{HOST}/", (FORM,), b"Param1=value1"),
            "content-type;host;x-amz-date",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            id="post-x-www-form-urlencoded",
        ),
    ],
)
def test_the_published_suite(asked: HttpDispatch, names: str, signature: str) -> None:
    assert signed(SUITE, SUITE_KEY, asked, SUITE_AT) == (
        (b"X-Amz-Date", b"20150830T123600Z"),
        (
            b"Authorization",
            b"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            + f"SignedHeaders={names}, Signature={signature}".encode(),
        ),
    )


def test_the_example_of_the_signing_guide() -> None:
    options = SigV4Options("AKIDEXAMPLE", "us-east-1", "iam")
    asked = dispatch(
        "GET",
        "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
        (("Content-Type", "application/x-www-form-urlencoded; charset=utf-8"),),
    )
    assert signature_of(signed(options, SUITE_KEY, asked, SUITE_AT)) == (
        "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


S3_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
S3 = SigV4Options("AKIAIOSFODNN7EXAMPLE", "us-east-1", "s3")
BUCKET = "https://examplebucket.s3.amazonaws.com"


@pytest.mark.parametrize(
    ("asked", "signature"),
    [
        pytest.param(
            dispatch("GET", f"{BUCKET}/test.txt", (("Range", "bytes=0-9"),)),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            id="get object",
        ),
        pytest.param(
            dispatch(
                "PUT",
                f"{BUCKET}/test%24file.text",
                (("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")),
                b"Welcome to Amazon S3.",
            ),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            id="put object",
        ),
        pytest.param(
            dispatch(
                "PUT",
                f"{BUCKET}/test$file.text",
                (("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")),
                b"Welcome to Amazon S3.",
            ),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            id="put object, its name written plainly",
        ),
        pytest.param(
            dispatch("GET", f"{BUCKET}/?lifecycle"),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            id="get bucket lifecycle",
        ),
        pytest.param(
            dispatch("GET", f"{BUCKET}/?max-keys=2&prefix=J"),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            id="list objects",
        ),
    ],
)
def test_the_examples_of_s3(asked: HttpDispatch, signature: str) -> None:
    headers = signed(S3, S3_KEY, asked, at(2013, 5, 24))
    assert [name for name, _ in headers] == [b"X-Amz-Date", b"X-Amz-Content-Sha256", b"Authorization"]
    assert signature_of(headers) == signature


def signature_of(headers: tuple[tuple[bytes, bytes], ...]) -> str:
    return dict(headers)[b"Authorization"].decode().rpartition("=")[2]


BASE = dispatch("POST", f"{HOST}/v1/a?b=c", (("X-A", "1"),), b"body")


@pytest.mark.parametrize(
    "other",
    [
        dispatch("PUT", f"{HOST}/v1/a?b=c", (("X-A", "1"),), b"body"),
        dispatch("POST", f"{HOST}/v1/b?b=c", (("X-A", "1"),), b"body"),
        dispatch("POST", f"{HOST}/v1/a?b=d", (("X-A", "1"),), b"body"),
        dispatch("POST", f"{HOST}:8443/v1/a?b=c", (("X-A", "1"),), b"body"),
        dispatch("POST", f"{HOST}/v1/a?b=c", (("X-A", "2"),), b"body"),
        dispatch("POST", f"{HOST}/v1/a?b=c", (("X-A", "1"), ("X-B", "1")), b"body"),
        dispatch("POST", f"{HOST}/v1/a?b=c", (("X-A", "1"),), b"Body"),
    ],
)
@pytest.mark.parametrize("options", [SUITE, S3])
def test_every_approved_part_is_under_the_signature(options: SigV4Options, other: HttpDispatch) -> None:
    first, second = (signed(options, SUITE_KEY, each, SUITE_AT) for each in (BASE, other))
    assert signature_of(first) != signature_of(second)


def test_the_time_is_the_callers_and_part_of_it() -> None:
    later = Micros(SUITE_AT + 1_000_000)
    first, second = (signed(SUITE, SUITE_KEY, BASE, when) for when in (SUITE_AT, later))
    assert second[0] == (b"X-Amz-Date", b"20150830T123601Z")
    assert signature_of(first) != signature_of(second)
    assert signed(SUITE, SUITE_KEY, BASE, Micros(SUITE_AT + 999_999)) == first


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("a=b:c/d,e", "a=b%3Ac%2Fd%2Ce"), ("a=%7e", "a=~"), ("a&&b=", "a=&b="), ("a=%ff", "a=%FF"), ("a=x=y", "a=x%3Dy")],
)
def test_a_query_is_signed_as_the_target_will_spell_it(written: str, canonical: str) -> None:
    first, second = (
        signed(SUITE, SUITE_KEY, dispatch("GET", f"{HOST}/?{query}"), SUITE_AT) for query in (written, canonical)
    )
    assert signature_of(first) == signature_of(second)


def by_botocore(path: str) -> str:
    """The signature of a GET of this path, by its own signer as a client of S3 drives it."""
    request = AWSRequest("GET", BUCKET + path, headers={"Host": "examplebucket.s3.amazonaws.com"}, data=b"")
    request.context["timestamp"] = "20130524T000000Z"
    signer = S3SigV4Auth(Credentials(S3.access_key, S3_KEY), "s3", "us-east-1")
    request.headers["X-Amz-Date"] = "20130524T000000Z"
    request.headers["X-Amz-Content-SHA256"] = signer.payload(request)
    return str(signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request))


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("/a(1).txt", "a(1).txt"),
        ("/a+b", "a+b"),
        ("/user@example.com", "user@example.com"),
        ("/year=2026/month=11", "year=2026/month=11"),
        ("/a,b:c;d!e*f'g&h", "a,b:c;d!e*f'g&h"),
        ("/a%20b", "a b"),
        ("/%C3%A9~-_.", "\u00e9~-_."),
        ("/a//b/", "a//b/"),
        ("/100%25", "100%"),
    ],
)
def test_a_path_of_s3_is_signed_as_its_clients_spell_it(written: str, key: str) -> None:
    spelt = "/" + percent_encode(key, safe="/~")
    for path in (written, spelt):
        headers = signed(S3, S3_KEY, dispatch("GET", BUCKET + path), at(2013, 5, 24))
        assert signature_of(headers) == by_botocore(spelt)


def test_an_encoded_slash_of_s3_stays_in_its_segment() -> None:
    for path in ("/a%2Fb", "/a%2fb"):
        assert signature_of(signed(S3, S3_KEY, dispatch("GET", BUCKET + path), at(2013, 5, 24))) == by_botocore(
            "/a%2Fb"
        )
