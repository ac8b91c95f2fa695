"""A token service that plays a script, in the shape of `tokens.TokenCaller`."""

from __future__ import annotations

import asyncio

from affidavit.broker.bound import Bound
from affidavit.broker.oauth2 import TokenFault
from affidavit.broker.secret import Secret
from affidavit.broker.tokens import TokenAnswer
from affidavit.broker.vault.credentials import Credential


class ScriptedTokenCaller:
    """Gives what its script says next and keeps what was asked; an Event in the script is waited for first."""

    def __init__(self, *script: TokenAnswer | TokenFault | asyncio.Event) -> None:
        self.script = list(script)
        self.asked: list[tuple[Credential, bytes]] = []

    async def call(self, credential: Credential, secret: Secret, cause: Bound) -> TokenAnswer | TokenFault:
        self.asked.append((credential, secret.use(bytes)))
        while isinstance(step := self.script.pop(0), asyncio.Event):
            await step.wait()
        return step
