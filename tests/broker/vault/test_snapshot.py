"""What is read from memory is what the database holds, whichever thread changed it and however late it returns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.vault.authority import Authority

from affidavit.broker.moment import SystemClock
from affidavit.broker.vault import NewCredential, NewHost, Vault

CA = Authority("corp", SystemClock().wall())
LATE = "late"


def credential(vault: Vault, name: str) -> None:
    new = NewCredential(name=name, kind="ssh-password", targets=("*.example.com",), username="deploy")
    vault.credentials.add(new, bytearray(b"planted-secret"))


def host(vault: Vault, name: str) -> None:
    vault.hosts.add(NewHost(name=name, address="a.example.com", user="deploy", credential="password"))


def proxy(vault: Vault, name: str) -> None:
    vault.proxy.set(f"http://{name}.example.com:3128", credential=None, no_proxy=(), trusted=False)


def trust(vault: Vault, name: str) -> None:
    vault.trust.add(name, CA.pem, ("https://a.example/**",))


@pytest.mark.parametrize("change", [credential, host, proxy, trust])
def test_a_change_that_returns_late_takes_nothing_back(vault: Vault, change: Callable[[Vault, str], None]) -> None:
    credential(vault, "password")
    committed, go = threading.Event(), threading.Event()
    write = vault.write

    def returning_late(*work: Any) -> Any:
        result = write(*work)
        if threading.current_thread().name == LATE:
            committed.set()
            assert go.wait(10)
        return result

    vault.write = returning_late  # type: ignore[method-assign]
    late = threading.Thread(target=change, args=(vault, "first"), name=LATE)
    late.start()
    assert committed.wait(10)
    change(vault, "second")
    go.set()
    late.join()
    in_memory = held(vault)
    vault.lock()
    vault.unlock(bytearray(b"correct horse"))
    assert in_memory == held(vault)


def held(vault: Vault) -> tuple[Any, ...]:
    return vault.credentials.list(), vault.trust.list(), vault.proxy.get(), vault.hosts.list()
