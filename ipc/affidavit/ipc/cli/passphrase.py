"""Passphrases and secrets, taken from a file descriptor or from the terminal without echo.

They are never an argument and never in the environment: both can be read by other programs. What is read lives in a
bytearray, so that whoever used it can overwrite it.
"""

from __future__ import annotations

import os
import termios

from affidavit.ipc.cli.refusal import usage

PASSPHRASE_MAX = 4096
SECRET_MAX = 64 * 1024


def from_fd(fd: int, option: str) -> bytearray:
    """The first line of `fd`. Reads no byte beyond it, so that one descriptor can give several lines."""
    line = bytearray()
    while len(line) <= PASSPHRASE_MAX:
        byte = _read(fd, 1, option)
        if byte in (b"", b"\n"):
            return _passphrase(line, option)
        line += byte
    wipe(line)
    raise usage(f"The passphrase is longer than {PASSPHRASE_MAX} bytes.", field=option)


def secret_from_fd(fd: int, option: str) -> bytearray:
    """Everything that `fd` still gives, less one line end at the end."""
    secret = bytearray()
    while len(secret) <= SECRET_MAX:
        part = _read(fd, 64 * 1024, option)
        if not part:
            if secret.endswith(b"\n"):
                del secret[-1:]
            return _not_empty(secret, option)
        secret += part
    wipe(secret)
    raise usage(f"The secret is longer than {SECRET_MAX} bytes.", field=option)


def from_terminal(prompt: str, option: str) -> bytearray:
    """One line typed at `prompt` on the controlling terminal, without echo."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        raise usage("There is no terminal to ask on.", field=option, remedy=f"Give {option} N.") from None
    try:
        before = termios.tcgetattr(terminal)
        silent = termios.tcgetattr(terminal)
        silent[3] &= ~termios.ECHO
        # Silent first: what is typed as soon as the prompt is there must neither be shown nor thrown away.
        termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)
        try:
            os.write(terminal, f"{prompt} ".encode("utf-8", "backslashreplace"))
            return from_fd(terminal, option)
        finally:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
            os.write(terminal, b"\n")
    finally:
        os.close(terminal)


def take(fd: int | None, prompt: str, option: str = "--passphrase-fd") -> bytearray:
    """A passphrase or a typed secret: from `fd` where it is given, else from the terminal."""
    return from_terminal(prompt, option) if fd is None else from_fd(fd, option)


def wipe(secret: bytearray) -> None:
    """Overwrite as far as Python allows."""
    secret[:] = bytes(len(secret))


def _read(fd: int, size: int, option: str) -> bytes:
    try:
        return os.read(fd, size)
    except OSError as error:
        message = f"Descriptor {fd} cannot be read: {os.strerror(error.errno or 0)}."
        raise usage(message, field=option, remedy=f"For example: affidavit ... {option} 3 3< FILE") from None


def _passphrase(line: bytearray, option: str) -> bytearray:
    if line.endswith(b"\r"):
        del line[-1:]
    try:
        line.decode()
    except UnicodeDecodeError:
        wipe(line)
        raise usage("The passphrase is not UTF-8.", field=option) from None
    return _not_empty(line, option)


def _not_empty(secret: bytearray, option: str) -> bytearray:
    if not secret:
        raise usage("It is empty.", field=option, remedy="Give at least one character.")
    return secret
