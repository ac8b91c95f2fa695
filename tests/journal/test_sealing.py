"""Write-blind: only the private key reads back, and what was sealed opens in its own place only."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nacl.public import PrivateKey

from affidavit.journal import CannotUnseal, Name, Opener

WAIT_S = 30.0

JSON = st.dictionaries(
    st.text(),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(payload=JSON)
def test_any_json_comes_back(home, draft, payload):
    journal = home.journal()
    (seq,) = journal.append([replace(draft(), payload=payload)]).seqs
    journal.flush().wait(WAIT_S)
    record = home.reader().record(seq)
    assert record is not None
    assert home.opener().payload(record) == payload
    assert journal.current_opener().payload(record) == payload
    home.close()


def test_a_lone_surrogate_survives(home, journal, reader, draft, row):
    text = "\ud800 half a character"
    journal.append([draft(text=text)], lambda s: [row(target=Name("target", text))], barrier=True).wait(WAIT_S)
    assert home.opener().payload(reader.record(2)) == {"text": text}
    assert home.opener().name(reader, 1) == text


@pytest.fixture
def record(journal, reader, draft):
    journal.append([draft(secret="planted"), draft()], barrier=True).wait(WAIT_S)
    return reader.record(2)


CHANGES = {
    "seq": 3,
    "at": 1,
    "kind": "OTHER",
    "invocation_id": None,
    "previous": 1,
    "tally": "[]",
    "sealed": b"x" * 40,
}


@pytest.mark.parametrize(("field", "value"), CHANGES.items())
def test_a_payload_opens_in_its_own_place_only(home, record, field, value):
    with pytest.raises(CannotUnseal):
        home.opener().payload(replace(record, **{field: value}))


def test_another_private_key_opens_nothing(record):
    stranger = Opener(bytes(PrivateKey.generate()))
    with pytest.raises(CannotUnseal, match="segment 1"):
        stranger.payload(record)


def test_a_segments_key_is_not_shown(home, reader, record):
    opening = reader.record(1)
    assert opening is not None
    assert opening.kind == "SEGMENT_OPENED"
    assert home.opener().payload(opening) == {}


def test_nothing_readable_lies_in_the_file_or_in_a_repr(home, journal, record, draft):
    assert "planted" not in repr(record)
    assert "planted" not in repr(draft(secret="planted"))
    journal.close()
    assert b"planted" not in home.path.read_bytes()


def test_a_name_opens_under_its_own_number_and_kind_only(home, journal, reader, draft, row):
    names = {"target": Name("target", "a"), "agent": Name("agent", "b")}
    journal.append([draft()], lambda s: [row(**names)], barrier=True).wait(WAIT_S)
    first, second = reader.name(1), reader.name(2)

    class Swapped:
        def name(self, name):
            return replace(first, number=2) if name == 2 else replace(first, kind=second.kind)

    for name in (1, 2):
        with pytest.raises(CannotUnseal):
            home.opener().name(Swapped(), name)


def test_segment_keys_are_opened_once(home, journal, reader, draft, monkeypatch):
    journal.append([draft()] * 5, barrier=True).wait(WAIT_S)
    opener = home.opener()
    opened: list[bytes] = []
    real = opener._box

    class Counting:
        def decrypt(self, sealed: bytes) -> bytes:
            opened.append(sealed)
            return real.decrypt(sealed)

    monkeypatch.setattr(opener, "_box", Counting())
    for record in reader.records_between(2, 6):
        opener.payload(record)
    assert len(opened) == 1
