"""The OS keyring, as the place of one small secret. The only file that imports `keyring`, and only when it is used.

A keyring call may block for as long as its prompt waits for a person. So all calls are made by one thread of their own,
which is never waited for at exit, and each caller waits a bounded time and is told in plain words what it waits for.
The backend is taken from a list by class: a configured one (plain-text files, chains) is never loaded.

Any program of this session can read an open keyring: it protects what lies on the disk, not against an agent.
"""

from __future__ import annotations

import importlib
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from affidavit.broker.vault.errors import DeviceSecretUnavailable, DeviceTrouble

T = TypeVar("T")

SERVICE = "affidavit"
WAIT_S = 30.0
"""How long a caller waits for the keyring: enough to type a password into its prompt."""

BACKENDS = {
    "linux": ("keyring.backends.SecretService", "Keyring"),
    "darwin": ("keyring.backends.macOS", "Keyring"),
    "win32": ("keyring.backends.Windows", "WinVaultKeyring"),
}
"""The backends that may be used, by platform: module and class."""

_TROUBLES = {
    "NoKeyringError": DeviceTrouble.ABSENT,
    "KeyringLocked": DeviceTrouble.LOCKED,
    "LockedException": DeviceTrouble.LOCKED,
    "PromptDismissedException": DeviceTrouble.DISMISSED,
    "SecretServiceNotAvailableException": DeviceTrouble.ABSENT,
}
"""By the class name of an exception or of one of its causes: the classes themselves are the backend's own."""


class Backend(Protocol):
    """What is used of a keyring backend."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...

    def delete_password(self, service: str, username: str) -> None: ...


def system_backend() -> Backend:
    """This platform's keyring. DeviceSecretUnavailable(ABSENT) where none answers. May block."""
    named = BACKENDS.get(sys.platform)
    if named is None:
        raise DeviceSecretUnavailable(DeviceTrouble.ABSENT)
    try:
        found: Any = getattr(importlib.import_module(named[0]), named[1])
        found.priority  # noqa: B018 - raises where the backend cannot work: RuntimeError, or OSError for a dead bus
    except (ImportError, RuntimeError, OSError) as error:
        raise DeviceSecretUnavailable(DeviceTrouble.ABSENT) from error
    backend: Backend = found()
    return backend


class KeyringStore:
    """Keyring entries of service `affidavit`, by item name. Any thread may call; each call waits at most `wait_s`.

    One daemon thread, `affidavit-keyring`, makes the calls in order. A call whose time is up before its turn is not
    made; one that is being made goes on, and its answer is dropped.
    """

    def __init__(self, *, backend: Callable[[], Backend] = system_backend, wait_s: float = WAIT_S) -> None:
        self._backend = backend
        self._wait_s = wait_s
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def get(self, item: str) -> bytearray | None:
        """The secret of `item`, or None. DeviceSecretUnavailable with a reason."""
        text = self._call(lambda: self._backend().get_password(SERVICE, item))
        if text is None:
            return None
        try:
            return bytearray.fromhex(text)
        except ValueError:
            raise DeviceSecretUnavailable(DeviceTrouble.MISMATCH) from None

    def set(self, item: str, secret: memoryview) -> None:
        """Keep `secret` as `item`. DeviceSecretUnavailable with a reason."""
        text = secret.hex()
        self._call(lambda: self._backend().set_password(SERVICE, item, text))

    def delete(self, item: str) -> None:
        """Remove `item`. DeviceSecretUnavailable with a reason."""
        self._call(lambda: self._backend().delete_password(SERVICE, item))

    def _call(self, job: Callable[[], T]) -> T:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="affidavit-keyring", daemon=True)
                self._thread.start()
        future: Future[T] = Future()
        self._jobs.put((future, job))
        try:
            return future.result(self._wait_s)
        except TimeoutError:
            future.cancel()
            raise DeviceSecretUnavailable(DeviceTrouble.BLOCKING) from None
        except DeviceSecretUnavailable:
            raise
        except Exception as error:
            # `from None`: the backend's text may quote what it was given.
            raise DeviceSecretUnavailable(_trouble(error), type(error).__name__) from None

    def _work(self) -> None:
        while True:
            future, job = self._jobs.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as error:
                    future.set_exception(error)
            del future, job


def _trouble(error: BaseException) -> DeviceTrouble:
    cause: BaseException | None = error
    found = DeviceTrouble.FAILED
    while cause is not None:
        # The innermost cause knows best: a dismissed prompt comes wrapped in "failed to create the collection".
        found = _TROUBLES.get(type(cause).__name__, found)
        cause = cause.__cause__ or cause.__context__
    return found
