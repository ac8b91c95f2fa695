"""What can go wrong with a database, the journal and its files; each says what to do next.

No message and no attribute holds a key, a payload or SQL.
"""

from __future__ import annotations

from pathlib import Path


class StorageError(Exception):
    """Base of this room's errors. `remedy` is one sentence for the operator."""

    remedy = "Look at the message, then try again."


class DatabaseError(StorageError):
    """Something is wrong with one database file."""

    says = "cannot be used"

    def __init__(self, path: Path, detail: str = "") -> None:
        self.path = path
        self.detail = detail
        super().__init__(f"{path} {self.says}{': ' + detail if detail else ''}")


class DatabaseMissing(DatabaseError):
    says = "does not exist"
    remedy = "Run `affidavit init`, or put the file back from its backup."


class DatabaseExists(DatabaseError):
    says = "exists already"
    remedy = "Move the file away first; nothing is ever overwritten."


class NotADatabase(DatabaseError):
    """A plain SQLite file, another program's file, a directory, or a file cut before the end of its first page."""

    says = "is not an encrypted database of Affidavit"
    remedy = "Put the right file back from its backup."


class WrongKey(DatabaseError):
    """No page of the file answers to this key."""

    says = "does not open with this key"
    remedy = "Use the key that the file was made with; a file from another installation has another one."


class DatabaseDamaged(DatabaseError):
    """The key is right, or was right when the file was opened; a page is not what was written."""

    says = "is damaged"
    remedy = "Keep the file as it is, run `affidavit audit verify`, and restore from a backup."


class DatabaseUnavailable(DatabaseError):
    """The system refused: rights, a full disk, an I/O error, a lock that was held too long."""

    says = "could not be opened or read"
    remedy = "See to the rights, the space and the health of the disk, then start again."


class DatabaseUnsafe(DatabaseError):
    """A setting that durability or encryption rests on does not hold."""

    says = "would not be kept safely"
    remedy = "Reinstall Affidavit with its own build of SQLCipher; nothing was written."


class FormatUnknown(DatabaseError):
    """The file opens, and is not a journal of a format that this version knows."""

    says = "is not a journal of a known format"
    remedy = "Open it with the version of Affidavit that wrote it."


class JournalUnavailable(StorageError):
    """A record is not durable, and will not be made so by this journal."""


class JournalPoisoned(JournalUnavailable):
    """A write failed. What it held may or may not be on disk; only opening the journal again tells."""

    remedy = "Nothing more is dispatched. See to the disk, then restart Affidavit."


class JournalClosed(JournalUnavailable):
    """The journal was closed before this call."""

    remedy = "Open the journal again."


class CannotUnseal(StorageError):
    """The key at hand does not open this record or name, or its bytes were changed."""

    remedy = "Unlock the vault that belongs to this journal; if it is unlocked, run `affidavit audit verify`."


class FileDamaged(StorageError):
    """A result or spool file is cut, changed, or belongs to another key or name."""

    remedy = "The file cannot be used; its record still holds length and hash of what it was."


class FileUnwritable(StorageError):
    """A result or spool file could not be written or made durable; `errno` is the system's."""

    remedy = "Make room on the disk or see to its rights."

    def __init__(self, name: str, errno: int | None, reason: str) -> None:
        self.name = name
        self.errno = errno
        super().__init__(f"{name} could not be written: {reason}")
