"""Icons, texts and built-in contracts. A leaf: it imports nothing of Affidavit's, and anyone may read it."""

from affidavit.resources.version import __version__

__all__ = ["__version__"]
