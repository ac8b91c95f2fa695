"""The version, in one place: `pyproject.toml` and every program read it from here."""

__version__ = "0.1.0"
