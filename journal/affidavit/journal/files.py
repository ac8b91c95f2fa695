"""Sealed files beside the journal: large results in chunks, and the request spool.

Megabytes in the journal's database would slow down every other action. All files have mode 0600; their directory
exists. A name is letters, digits, `.`, `_` and `-`, at most 128, not beginning with a dot.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from affidavit.journal.encoding import fields
from affidavit.journal.errors import FileDamaged, FileUnwritable

CHUNK = 256 * 1024
"""Bytes of plain text in every chunk of a result but the last."""

UNSYNCED_CHUNKS = 4
"""So that a slow disk never has more than 1 MiB to catch up with when an action's verdict must become durable."""

_TAG = 16
_NONCE = 12
_MAGIC = b"affidavit result v1\n"
_SPOOL_DOMAIN = b"affidavit spool v1"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_UNFINISHED = ".part"

SPOOL_SUFFIX = ".spool"
"""Ends the name of every spooled request, and of no result."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk of a result. `sha256` is of its plain text, in hex; `last` marks the end."""

    index: int
    data: bytes = field(repr=False)
    sha256: str
    last: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """A result that is durable as a whole: what its record holds of it. `sha256` is of all plain text, in hex."""

    name: str
    length: int
    chunks: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One result's file. Its chunks are AES-256-GCM under a key of its own; index and end mark are authenticated."""

    directory: Path
    name: str

    def __post_init__(self) -> None:
        _check_name(self.name)

    @property
    def path(self) -> Path:
        return self.directory / self.name

    def create(self) -> ResultWriter:
        """Begin the file under another name; it gets its own when it is finished. Raises `FileUnwritable`."""
        return ResultWriter(self)

    def open(self, key: bytes) -> ResultReader:
        """Raises FileNotFoundError, or `FileDamaged` where the file is cut or is something else."""
        return ResultReader(self, key)

    def delete(self) -> None:
        """Remove the file; that it is gone already is no error."""
        self.path.unlink(missing_ok=True)


def remove_unfinished(directory: Path) -> int:
    """Remove what a crash left of results that were being written; return how many. No writer may be at work."""
    left = list(directory.glob(f"*{_UNFINISHED}"))
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)


def result_names(directory: Path) -> list[str]:
    """The names of all finished results in a directory; spooled requests lie there too and are not among them."""
    names = (path.name for path in directory.iterdir())
    return [name for name in names if _NAME.fullmatch(name) and not name.endswith((_UNFINISHED, SPOOL_SUFFIX))]


class ResultWriter:
    """Writes one result, then `finish` or `abandon`. Blocks on the disk; belongs to one thread at a time.

    `key` opens the file; it is kept nowhere else.
    """

    def __init__(self, file: ResultFile) -> None:
        """For `ResultFile.create`."""
        self.key = AESGCM.generate_key(256)
        self._file = file
        self._aead = AESGCM(self.key)
        self._digest = hashlib.sha256()
        self._length = 0
        self._chunks = 0
        self._pending = bytearray()
        self._renamed = False
        self._unfinished = file.path.with_name(file.name + _UNFINISHED)
        try:
            self._descriptor = _create(self._unfinished)
        except OSError as error:
            raise _unwritable(file.name, error) from None
        try:
            _write_all(self._descriptor, _MAGIC)
        except OSError as error:
            self.abandon()
            raise _unwritable(file.name, error) from None

    def write(self, data: bytes | bytearray) -> None:
        """Add plain text. Raises `FileUnwritable`; then only `abandon` is left."""
        self._digest.update(data)
        self._length += len(data)
        self._pending += data
        try:
            while len(self._pending) > CHUNK:  # a whole chunk waits until it is known not to be the last
                self._put(bytes(self._pending[:CHUNK]), last=False)
                del self._pending[:CHUNK]
        except OSError as error:
            raise _unwritable(self._file.name, error) from None

    def finish(self) -> Stored:
        """Write the last chunk and return once file and directory are durable.

        Raises `FileUnwritable`; then only `abandon` is left.
        """
        try:
            self._put(bytes(self._pending), last=True)
            os.fsync(self._descriptor)
            os.rename(self._unfinished, self._file.path)
            self._renamed = True
            sync_directory(self._file.directory)
        except OSError as error:
            raise _unwritable(self._file.name, error) from None
        self._close()
        return Stored(self._file.name, self._length, self._chunks, self._digest.hexdigest())

    def abandon(self) -> None:
        """Drop what was written, unless `finish` has returned. What cannot be removed now is at the next start."""
        self._close()
        with suppress(OSError):
            (self._file.path if self._renamed else self._unfinished).unlink()

    def _put(self, data: bytes, *, last: bool) -> None:
        nonce, bound = _place(self._chunks, last)
        _write_all(self._descriptor, self._aead.encrypt(nonce, data, bound))
        self._chunks += 1
        if not last and self._chunks % UNSYNCED_CHUNKS == 0:
            os.fdatasync(self._descriptor)

    def _close(self) -> None:
        self._pending.clear()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class ResultReader:
    """Reads chunks in any order, so that a caller resumes from its last verified one. Holds no file open."""

    def __init__(self, file: ResultFile, key: bytes) -> None:
        """For `ResultFile.open`."""
        self._file = file
        self._aead = AESGCM(key)
        size = file.path.stat().st_size - len(_MAGIC)
        whole, rest = divmod(size, CHUNK + _TAG)
        if size < _TAG or 0 < rest < _TAG:
            raise FileDamaged(f"{file.name} is cut")
        self.chunks = whole + (rest > 0)
        with file.path.open("rb") as stored:
            if stored.read(len(_MAGIC)) != _MAGIC:
                raise FileDamaged(f"{file.name} is not a result file")

    def chunk(self, index: int) -> Chunk:
        """One chunk, counted from 0. Raises IndexError, or `FileDamaged` if it is not what was written in its place."""
        if not 0 <= index < self.chunks:
            raise IndexError(index)
        with self._file.path.open("rb") as stored:
            stored.seek(len(_MAGIC) + index * (CHUNK + _TAG))
            sealed = stored.read(CHUNK + _TAG)
        last = index == self.chunks - 1
        try:
            data = self._aead.decrypt(_place(index, last)[0], sealed, _place(index, last)[1])
        except InvalidTag:
            raise FileDamaged(f"chunk {index} of {self._file.name} is not what was written") from None
        return Chunk(index, data, hashlib.sha256(data).hexdigest(), last)


@dataclass(frozen=True, slots=True)
class SpoolFile:
    """One sealed request beside the results. Not a record: it is not forced to disk (R62), and written in place, since
    one that a crash cut is found damaged, which is as good as gone."""

    directory: Path
    name: str

    def __post_init__(self) -> None:
        _check_name(self.name)

    @property
    def path(self) -> Path:
        return self.directory / self.name

    def write(self, data: bytes, key: bytes) -> None:
        """Seal `data` under `key` (32 bytes) and put it there. Raises `FileUnwritable`."""
        nonce = secrets.token_bytes(_NONCE)
        sealed = nonce + AESGCM(key).encrypt(nonce, data, self._bound)
        try:
            descriptor = _create(self.path, os.O_TRUNC)
            try:
                _write_all(descriptor, sealed)
            finally:
                os.close(descriptor)
        except OSError as error:
            with suppress(OSError):
                self.delete()
            raise _unwritable(self.name, error) from None

    def read(self, key: bytes) -> bytes:
        """What was written. Raises FileNotFoundError, or `FileDamaged` for a wrong key, name or byte."""
        sealed = self.path.read_bytes()
        try:
            return AESGCM(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], self._bound)
        except (InvalidTag, ValueError):
            raise FileDamaged(f"{self.name} is not what was written") from None

    def delete(self) -> None:
        """Remove the file; that it is gone already is no error."""
        self.path.unlink(missing_ok=True)

    @property
    def _bound(self) -> bytes:
        return fields(_SPOOL_DOMAIN, self.name.encode())


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name.endswith(_UNFINISHED):
        raise ValueError("a sealed file's name is 1 to 128 letters, digits, '.', '_' and '-', and no dot first")


def _place(index: int, last: bool) -> tuple[bytes, bytes]:
    """Nonce and associated data of a chunk: what makes it fit in one place only, and the end the end."""
    mark = b"\x01" if last else b"\x00"
    place = index.to_bytes(_NONCE - 1, "big") + mark
    return place, fields(_MAGIC, place)


def _create(path: Path, how: int = os.O_EXCL) -> int:
    return os.open(path, os.O_CREAT | how | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _unwritable(name: str, error: OSError) -> FileUnwritable:
    return FileUnwritable(name, error.errno, error.strerror or type(error).__name__)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
