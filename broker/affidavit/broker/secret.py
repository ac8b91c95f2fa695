"""A secret value that cannot leak by accident (R12).

It does not print, format, pickle, copy, compare or hash. Its bytes are lent, late and briefly, as a read-only view that
prints nothing either, and are overwritten when it is wiped. What Python allows is all that is promised: a library that
takes `bytes` makes a copy that lives until it is collected.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class SecretWiped(Exception):
    """The secret was overwritten before this use."""


class Secret:
    """Owns one secret value. Any thread may use it; wiping while another thread uses it lends that thread zeros.

    A bytearray is taken over, not copied, so that wiping reaches the only copy; the caller must not keep it.
    """

    __slots__ = ("_value", "_wiped")

    def __init__(self, value: bytearray | bytes) -> None:
        self._wiped = False
        self._value = bytearray()
        self._value = value if isinstance(value, bytearray) else bytearray(memoryview(value))

    def use(self, borrow: Callable[[memoryview], T]) -> T:
        """Call `borrow` with a read-only view of the bytes, which ends with the call. SecretWiped after `wipe`."""
        if self._wiped:
            raise SecretWiped("this secret was wiped")
        with memoryview(self._value) as view, view.toreadonly() as lent:
            return borrow(lent)

    def copy(self) -> Secret:
        """Another owner of the same value, for whoever outlives this one."""
        return Secret(self.use(bytearray))

    def wipe(self) -> None:
        """Overwrite the value; may be repeated."""
        self._wiped = True
        overwrite(self._value)

    def __enter__(self) -> Secret:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wipe()

    def __del__(self) -> None:
        overwrite(self._value)

    def __repr__(self) -> str:
        return "Secret()"

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("secrets are not compared")

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> NoReturn:
        raise TypeError("secrets are not pickled or copied")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("secrets are not pickled or copied")

    def __copy__(self) -> NoReturn:
        raise TypeError("secrets are not pickled or copied")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise TypeError("secrets are not pickled or copied")


def overwrite(value: bytearray) -> None:
    """Set every byte to zero in place; the length stays."""
    value[:] = bytes(len(value))
