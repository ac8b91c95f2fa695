"""Intake: what of a body meets the disk, in which form, and what is said of it (R31; interface, Results)."""

from __future__ import annotations

import base64
import errno
import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import brotli
import pytest
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from affidavit.broker.intake import NONCE, Intake, Taken
from affidavit.broker.limits import Limits
from affidavit.broker.redact import REPLACEMENT, Forms
from affidavit.journal import CHUNK, FileUnwritable, ResultFile, files

SECRET = b'planted "secret"/9fK+2~'
FORMS = Forms((SECRET,), (b"Bearer " + SECRET,))
NAME = "act_00000000000000000000000000.0a1b2c3d"
LIMITS = Limits()


@pytest.fixture
def disk() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


class Place:
    """A directory of results, and what can be read back from it with the key of a record."""

    def __init__(self, directory: Path, disk: ThreadPoolExecutor) -> None:
        self.directory = directory
        self.disk = disk

    def intake(self, coding: str | None = None, limits: Limits = LIMITS, forms: Forms = FORMS) -> Intake:
        return Intake(self.directory, NAME, forms, limits, self.disk, coding)

    def take(self, data: bytes, step: int = 65536, **more: object) -> Taken:
        intake = self.intake(**more)  # type: ignore[arg-type]
        for at in range(0, len(data), step):
            intake.take(data[at : at + step])
        return intake.finish()

    def stored(self, taken: Taken) -> bytes:
        body, key = taken.body, bytes.fromhex(taken.body.key)
        if body.place == "none":
            return b""
        if body.place == "file":
            reader = ResultFile(self.directory, body.name).open(key)
            return b"".join(reader.chunk(n).data for n in range(body.chunks))
        (blob,) = taken.blobs
        assert blob.id == body.name
        return AESGCM(key).decrypt(blob.data[:NONCE], blob.data[NONCE:], body.name.encode())


@pytest.fixture
def place(tmp_path: Path, disk: ThreadPoolExecutor) -> Place:
    return Place(tmp_path, disk)


SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 100]


@pytest.mark.parametrize("step", [1000, 65536, 1 << 20])
@pytest.mark.parametrize("size", SIZES)
def test_what_came_is_what_is_kept(place: Place, size: int, step: int) -> None:
    data = os.urandom(size)
    taken = place.take(data, step)
    body = taken.body
    assert place.stored(taken) == data
    assert (body.bytes, body.stored_bytes, body.redactions) == (size, size, 0)
    assert body.sha256 == body.delivered_sha256 == hashlib.sha256(data).hexdigest()
    assert body.chunks == max(1, -(-size // CHUNK))
    assert body.place == ("none" if size == 0 else "blob" if size <= CHUNK else "file")
    assert taken.inline == (data if size <= CHUNK else None)
    assert body.truncated_at is None
    assert [p.name for p in place.directory.iterdir()] == ([NAME] if size > CHUNK else [])


def test_a_file_has_an_entry_in_the_index_of_blobs(place: Place) -> None:
    (entry,) = place.take(bytes(CHUNK + 1)).blobs
    assert (entry.id, entry.data) == (NAME, b"")


def test_text_is_told_from_bytes(place: Place) -> None:
    assert place.take("päper".encode()).body.text
    assert place.take(b"").body.text
    assert not place.take(b"\xff\xfe").body.text
    assert not place.take(b"a" * (CHUNK + 1)).body.text


ECHOES = {
    "plain": SECRET,
    "whole": b"Bearer " + SECRET,
    "json": b'planted \\"secret\\"/9fK+2~',
    "percent": b"planted%20%22secret%22%2F9fK%2B2~",
    "percent, lower": b"planted%20%22secret%22%2f9fK%2b2~",
    "form": b"planted+%22secret%22%2F9fK%2B2%7E",
    "hex": SECRET.hex().encode(),
    "base64": base64.b64encode(SECRET),
    "base64, shifted by one": base64.b64encode(b"x" + SECRET),
    "base64, shifted by two": base64.b64encode(b"xy" + SECRET),
    "base64url": base64.urlsafe_b64encode(b"xy" + SECRET),
}


@pytest.mark.parametrize("coding", [None, "gzip", "gzip, br"])
@pytest.mark.parametrize("form", ECHOES)
def test_an_echo_over_any_border_never_meets_the_disk(place: Place, form: str, coding: str | None) -> None:
    """Three echoes, each over a border: of the wire's pieces, of the store's chunks, and at the end."""
    echo = ECHOES[form]
    filler = os.urandom(1 << 16)
    half = len(echo) // 2
    plain = (filler * 4)[: CHUNK - half] + echo + (filler * 8)[: 100_000 - half] + echo + filler + echo
    sent = {None: plain, "gzip": gzip.compress(plain), "gzip, br": brotli.compress(gzip.compress(plain), quality=1)}
    taken = place.take(sent[coding], 50_000, coding=coding)
    kept = place.stored(taken)
    assert taken.body.redactions == 3
    assert kept.count(REPLACEMENT) == 3
    assert echo not in kept
    for literal in FORMS.literals:
        assert literal not in kept
    assert taken.body.sha256 == hashlib.sha256(sent[coding]).hexdigest()
    assert taken.body.delivered_sha256 == hashlib.sha256(kept).hexdigest()


@pytest.mark.parametrize("step", [1, 7, 22, 23, 24, 25])
def test_however_the_wire_cuts_an_echo(place: Place, step: int) -> None:
    taken = place.take(b"<" + SECRET + b">" + SECRET, step)
    assert place.stored(taken) == b"<" + REPLACEMENT + b">" + REPLACEMENT


def test_only_the_redacted_form_is_ever_written(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed to the disk, before it is sealed; also of a coded body, which is kept twice for a while."""
    handed: list[bytes] = []
    write = files.ResultWriter.write

    def watched(self: files.ResultWriter, data: bytes) -> None:
        handed.append(bytes(data))
        write(self, data)

    monkeypatch.setattr(files.ResultWriter, "write", watched)
    plain = os.urandom(CHUNK) + SECRET + os.urandom(CHUNK)
    place.take(plain)
    place.take(gzip.compress(plain), coding="gzip")
    place.take(plain, coding="zzz")
    written = b"".join(handed)
    assert len(written) > 6 * CHUNK
    assert written.count(REPLACEMENT) == 4, "gzip stores as it is what it cannot pack"
    assert SECRET not in written


@pytest.mark.parametrize(
    ("coding", "data", "why"),
    [
        ("zzz", b"odd", "coding"),
        ("gzip", b"not gzip", "malformed"),
        ("gzip", gzip.compress(b"x" * 9999)[:-3], "cut"),
        ("br", brotli.compress(os.urandom(2 * CHUNK))[:-1], "cut"),
    ],
)
def test_what_cannot_be_decoded_is_kept_as_it_came_and_marked(place: Place, coding: str, data: bytes, why: str) -> None:
    taken = place.take(data, coding=coding)
    assert place.stored(taken) == data
    assert (taken.body.undecodable, taken.body.withheld) == (why, False)
    assert taken.body.sha256 == taken.body.delivered_sha256 == hashlib.sha256(data).hexdigest()
    assert len(list(place.directory.iterdir())) == (taken.body.place == "file")


@pytest.mark.parametrize("size", [10, CHUNK])
def test_a_secret_in_what_cannot_be_decoded_is_taken_out_and_the_rest_withheld(place: Place, size: int) -> None:
    taken = place.take(bytes(size) + SECRET + bytes(size), coding="zzz")
    assert taken.body.withheld
    assert taken.body.redactions == 1
    assert place.stored(taken) == bytes(size) + REPLACEMENT + bytes(size)


HOLDS = gzip.compress(b'{"you_sent":"Bearer ' + SECRET + b'"}' + b"." * 300)
OTHER = gzip.compress(b"nothing of it")
HIDING = {
    "a second member": ("gzip", HOLDS + OTHER),
    "only the second one has it": ("gzip", OTHER + HOLDS),
    "cut behind it": ("gzip", HOLDS[:-2]),
    "cut inside it": ("gzip", gzip.compress(SECRET[:-1], 0)[:-8]),
    "a wrong checksum": ("gzip", HOLDS[:-8] + bytes(8)),
    "deflate with a wrong checksum": ("deflate", zlib.compress(SECRET * 9)[:-4] + bytes(4)),
    "a byte too much": ("gzip, br", brotli.compress(HOLDS) + b"x"),
    "a second frame": ("gzip, zstd", zstandard.compress(OTHER) + zstandard.compress(HOLDS)),
    "a known coding over one that is not": ("zzz, gzip", HOLDS),
    "too many codings": ("gzip, gzip, gzip", gzip.compress(gzip.compress(HOLDS))),
    "over the limit": ("gzip", gzip.compress(b"." * 2000 + SECRET)),
}


@pytest.mark.parametrize("step", [1, 1 << 20])
@pytest.mark.parametrize("name", HIDING)
def test_what_a_kinder_reader_would_decode_is_withheld(place: Place, name: str, step: int) -> None:
    """Its coding could not be undone here to the end, but can be where less is asked of it: the secret is in there."""
    coding, data = HIDING[name]
    taken = place.take(data, step, coding=coding, limits=replace(LIMITS, result=1000))
    assert taken.body.undecodable is not None
    assert taken.body.withheld
    assert place.stored(taken) == data


@pytest.mark.parametrize("name", HIDING)
def test_where_no_credential_was_used_there_is_nothing_to_withhold(place: Place, name: str) -> None:
    coding, data = HIDING[name]
    taken = place.take(data, coding=coding, limits=replace(LIMITS, result=1000), forms=Forms(()))
    assert (taken.body.undecodable is not None, taken.body.withheld) == (True, False)


@pytest.mark.parametrize("end", [b"", SECRET[:3]])
def test_what_broke_off_and_held_nothing_as_far_as_it_decoded_is_delivered(place: Place, end: bytes) -> None:
    """A few bytes are the beginning of a secret by chance."""
    taken = place.take(gzip.compress(b"." * 300 + end)[:-8], coding="gzip")
    assert (taken.body.undecodable, taken.body.withheld) == ("cut", False)


def test_decoded_bytes_have_a_hash_of_their_own(place: Place) -> None:
    sent = gzip.compress(b"decoded")
    taken = place.take(sent, coding="gzip")
    assert taken.inline == b"decoded"
    assert taken.body.bytes == len(sent)
    assert taken.body.sha256 == hashlib.sha256(sent).hexdigest()
    assert taken.body.delivered_sha256 == hashlib.sha256(b"decoded").hexdigest()
    assert taken.body.undecodable is None


@pytest.mark.parametrize("limit", [10, CHUNK + 10])
def test_over_the_limit_it_is_hashed_to_its_end_and_stored_no_further(place: Place, limit: int) -> None:
    data = os.urandom(3 * CHUNK)
    taken = place.take(data, limits=replace(LIMITS, result=limit))
    assert place.stored(taken) == data[:limit]
    assert (taken.body.truncated_at, taken.body.bytes) == (limit, len(data))
    assert taken.body.sha256 == hashlib.sha256(data).hexdigest()


def test_exactly_at_the_limit_nothing_is_cut(place: Place) -> None:
    taken = place.take(bytes(100), limits=replace(LIMITS, result=100))
    assert taken.body.truncated_at is None


def test_discarded_at_any_point_nothing_is_left(place: Place) -> None:
    for size in (0, 10, CHUNK + 1, 4 * CHUNK):
        for coding in (None, "gzip"):
            intake = place.intake(coding)
            intake.take(os.urandom(size))
            intake.discard()
            intake.discard()
    assert list(place.directory.iterdir()) == []


@pytest.mark.parametrize("what", ["create", "write", "fdatasync", "fsync", "rename", "sync_directory"])
def test_a_disk_that_refuses_is_told_of_at_the_end_and_leaves_nothing(
    place: Place, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    names = {"create": "_create", "write": "_write_all", "sync_directory": "sync_directory"}
    monkeypatch.setattr(*((files, names[what]) if what in names else (files.os, what)), full)
    intake = place.intake()
    for _ in range(40):
        intake.take(bytes(65536))
    with pytest.raises(FileUnwritable) as refused:
        intake.finish()
    assert refused.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert list(place.directory.iterdir()) == []
