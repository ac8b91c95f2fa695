"""A wire for each test, and one OpenSSH server for all that do no harm to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.broker.wire.ssh.sshd import Sshd

from affidavit.broker.wire.ssh.exchange import ParamikoWire


@pytest.fixture
async def wire() -> AsyncIterator[ParamikoWire]:
    wire = ParamikoWire()
    yield wire
    wire.close_idle()


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd"), "AcceptEnv AFFIDAVIT_*") as server:
        yield server
