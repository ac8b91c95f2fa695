"""Records that cannot be changed unnoticed, and what is projected from them (docs/journal-format.md).

The journal gives a record's kind and payload no meaning. It promises order, durability on request, that a changed
record is found, and that who appends cannot read back what was sealed.
"""

from affidavit.journal.action import OPEN_STATES, UNKNOWN_STATE, ActionRow, ActionView, Name
from affidavit.journal.counts import Place
from affidavit.journal.errors import (
    CannotUnseal,
    DatabaseDamaged,
    DatabaseError,
    DatabaseExists,
    DatabaseMissing,
    DatabaseUnavailable,
    DatabaseUnsafe,
    FileDamaged,
    FileUnwritable,
    FormatUnknown,
    JournalClosed,
    JournalPoisoned,
    JournalUnavailable,
    NotADatabase,
    StorageError,
    WrongKey,
)
from affidavit.journal.files import (
    CHUNK,
    SPOOL_SUFFIX,
    Chunk,
    ResultFile,
    ResultReader,
    ResultWriter,
    SpoolFile,
    Stored,
    remove_unfinished,
    result_names,
)
from affidavit.journal.journal import Counters, Journal
from affidavit.journal.ledger import Blob, Standing
from affidavit.journal.reader import Reader
from affidavit.journal.receipt import Receipt
from affidavit.journal.record import SEGMENT_OPENED, Draft, Head, Record
from affidavit.journal.sealing import CurrentOpener, Opener, SealedName
from affidavit.journal.sqlcipher import open_database
from affidavit.journal.verify import Broken, Fault, Verdict, verify

__all__ = [
    "CHUNK",
    "OPEN_STATES",
    "SEGMENT_OPENED",
    "SPOOL_SUFFIX",
    "UNKNOWN_STATE",
    "ActionRow",
    "ActionView",
    "Blob",
    "Broken",
    "CannotUnseal",
    "Chunk",
    "Counters",
    "CurrentOpener",
    "DatabaseDamaged",
    "DatabaseError",
    "DatabaseExists",
    "DatabaseMissing",
    "DatabaseUnavailable",
    "DatabaseUnsafe",
    "Draft",
    "Fault",
    "FileDamaged",
    "FileUnwritable",
    "FormatUnknown",
    "Head",
    "Journal",
    "JournalClosed",
    "JournalPoisoned",
    "JournalUnavailable",
    "Name",
    "NotADatabase",
    "Opener",
    "Place",
    "Reader",
    "Receipt",
    "Record",
    "ResultFile",
    "ResultReader",
    "ResultWriter",
    "SealedName",
    "SpoolFile",
    "Standing",
    "StorageError",
    "Stored",
    "Verdict",
    "WrongKey",
    "open_database",
    "remove_unfinished",
    "result_names",
    "verify",
]
