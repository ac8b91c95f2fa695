"""Result and spool files: whole, in order, private, or refused."""

from __future__ import annotations

import errno
import hashlib
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from affidavit.journal import CHUNK, FileDamaged, FileUnwritable, ResultFile, SpoolFile, files, remove_unfinished

KEY = b"k" * 32


def store(file: ResultFile, data: bytes, step: int = 100_000):
    writer = file.create()
    for start in range(0, len(data), step):
        writer.write(data[start : start + step])
    return writer.finish(), writer.key


SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK + 17]


@pytest.mark.parametrize("size", SIZES)
def test_a_result_comes_back_chunk_by_chunk(tmp_path, size):
    data = os.urandom(size)
    stored, key = store(ResultFile(tmp_path, "res_1"), data)
    assert (stored.length, stored.sha256) == (size, hashlib.sha256(data).hexdigest())
    reader = ResultFile(tmp_path, "res_1").open(key)
    chunks = [reader.chunk(i) for i in range(reader.chunks)]
    assert len(chunks) == stored.chunks == max(1, -(-size // CHUNK))
    assert b"".join(chunk.data for chunk in chunks) == data
    assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert all(chunk.sha256 == hashlib.sha256(chunk.data).hexdigest() for chunk in chunks)
    assert reader.chunk(0) == chunks[0]  # a caller may come back for any of them
    for beyond in (-1, reader.chunks):
        with pytest.raises(IndexError):
            reader.chunk(beyond)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(sizes=st.lists(st.integers(0, 2 * CHUNK), max_size=5))
def test_how_it_was_written_does_not_matter(tmp_path, sizes):
    writer = ResultFile(tmp_path, "res").create()
    data = bytes(range(256)) * (2 * CHUNK // 256)
    for size in sizes:
        writer.write(data[:size])
    stored = writer.finish()
    reader = ResultFile(tmp_path, "res").open(writer.key)
    whole = b"".join(reader.chunk(i).data for i in range(reader.chunks))
    assert whole == b"".join(data[:size] for size in sizes)
    assert hashlib.sha256(whole).hexdigest() == stored.sha256


def test_files_are_private_and_hold_nothing_readable(tmp_path):
    store(ResultFile(tmp_path, "res_1"), b"planted" * 1000)
    SpoolFile(tmp_path, "req_1").write(b"planted", KEY)
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert b"planted" not in path.read_bytes()


def test_a_cut_changed_or_foreign_result_is_refused(tmp_path):
    file = ResultFile(tmp_path, "res_1")
    _, key = store(file, os.urandom(3 * CHUNK + 5))
    whole = file.path.read_bytes()
    head = len(whole) - (3 * CHUNK + 5 + 4 * 16)
    step = CHUNK + 16

    def last_chunk(data: bytes):
        file.path.write_bytes(data)
        reader = file.open(key)
        return reader.chunk(reader.chunks - 1)

    assert last_chunk(whole).last
    chunks = [whole[head + i * step : head + (i + 1) * step] for i in range(4)]
    bad = {
        "cut at a chunk's border": whole[: head + 3 * step],
        "cut inside a chunk": whole[:-1],
        "cut inside a tag": whole[: head + 3 * step + 7],
        "cut to nothing": whole[:head],
        "a byte changed": whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:],
        "something after the end": whole + bytes(16),
        "the last chunk missing": whole[:head] + b"".join(chunks[:3]),
        "another file": b"x" * len(whole),
    }
    for name, data in bad.items():
        with pytest.raises(FileDamaged):
            print(name, last_chunk(data))
    file.path.write_bytes(whole[:head] + chunks[1] + chunks[0] + chunks[2] + chunks[3])
    for swapped in (0, 1):
        with pytest.raises(FileDamaged):
            file.open(key).chunk(swapped)
    assert file.open(key).chunk(2).index == 2
    file.path.write_bytes(whole)
    with pytest.raises(FileDamaged):
        file.open(KEY).chunk(0)
    file.delete()
    file.delete()
    with pytest.raises(FileNotFoundError):
        file.open(key)


def test_nothing_poses_as_a_result_before_it_is_finished(tmp_path):
    file = ResultFile(tmp_path, "res_1")
    abandoned = file.create()
    abandoned.write(b"x" * CHUNK * 2)
    assert not file.path.exists()
    abandoned.abandon()
    assert list(tmp_path.iterdir()) == []
    left = file.create()  # as by a crash
    os.close(left._descriptor)
    assert remove_unfinished(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_at_most_a_mebibyte_is_unsynced_and_the_end_is_durable(tmp_path, monkeypatch):
    calls: list[str] = []
    written = [0]
    unsynced: list[int] = []
    real_write, real_fsync, real_fdatasync, real_rename = os.write, os.fsync, os.fdatasync, os.rename

    def write(descriptor, data):
        count = real_write(descriptor, data)
        written[0] += count
        return count

    def fdatasync(descriptor):
        unsynced.append(written[0])
        written[0] = 0
        real_fdatasync(descriptor)

    def fsync(descriptor):
        calls.append("directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        real_fsync(descriptor)

    def rename(*names):
        calls.append("rename")
        real_rename(*names)

    for name, fake in {"write": write, "fdatasync": fdatasync, "fsync": fsync, "rename": rename}.items():
        monkeypatch.setattr(files.os, name, fake)
    store(ResultFile(tmp_path, "res_1"), bytes(10 * CHUNK))
    assert calls == ["file", "rename", "directory"]
    assert len(unsynced) == 2
    assert all(count <= 1024 * 1024 + 200 for count in [*unsynced, written[0]])


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    writer = ResultFile(tmp_path, "res_1").create()

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(FileUnwritable, match="No space left") as caught:
        writer.write(bytes(2 * CHUNK))
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(FileUnwritable):
        writer.finish()
    writer.abandon()
    with pytest.raises(FileUnwritable):
        SpoolFile(tmp_path, "req_1").write(b"x", KEY)
    assert not (tmp_path / "req_1").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a b", "x" * 129, "res.part", "a\0"])
def test_a_name_cannot_lead_elsewhere(tmp_path, name):
    for kind in (ResultFile, SpoolFile):
        with pytest.raises(ValueError, match="sealed file's name"):
            kind(tmp_path, name)


def test_the_spool_keeps_one_request_until_it_is_deleted(tmp_path):
    file = SpoolFile(tmp_path, "req_1")
    file.write(b"first", KEY)
    file.write(b"second", KEY)
    assert file.read(KEY) == b"second"
    with pytest.raises(FileDamaged):
        file.read(b"o" * 32)
    os.rename(file.path, tmp_path / "req_2")
    with pytest.raises(FileDamaged):
        SpoolFile(tmp_path, "req_2").read(KEY)
    (tmp_path / "req_3").write_bytes(b"short")
    with pytest.raises(FileDamaged):
        SpoolFile(tmp_path, "req_3").read(KEY)
    with pytest.raises(FileNotFoundError):
        file.read(KEY)
    file.delete()
