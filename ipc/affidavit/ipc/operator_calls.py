"""The operator socket's calls. Any program of this user can connect: what loosens anything takes the passphrase."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from affidavit.broker.api import Json, OperatorApi, OperatorRefused
from affidavit.broker.card import Card, Decision
from affidavit.broker.secret import overwrite
from affidavit.broker.terms import InvocationId
from affidavit.ipc import cards_json, params
from affidavit.ipc.connection import CallerGone, Tell
from affidavit.ipc.methods import METHODS, Method
from affidavit.ipc.peer import Peer, identify
from affidavit.ipc.provenance import Ours
from affidavit.resources.version import __version__

PROTOCOL = 1


@dataclass(frozen=True, slots=True)
class About:
    """What a person is told before a passphrase is given to this broker."""

    home: str
    home_from: str | None
    """The variable that named the home, or None for the XDG directories."""
    program: str


class OperatorCalls:
    """Answers for `operator.sock`. `raise_window` says whether there was a window. Owned by the broker's loop.

    Each function below `call` is a `handler` of the method table.
    """

    methods = METHODS["operator"]
    wiping = True

    def __init__(self, api: OperatorApi, about: About, ours: Ours, raise_window: Callable[[], bool]) -> None:
        self._api = api
        self._about = about
        self._ours = ours
        self._raise_window = raise_window

    def admit(self, sock: socket.socket, tell: Tell) -> Peer:
        """Who connected. Raises PeerRefused."""
        return identify(sock, self._ours)

    def leave(self, caller: Peer) -> None:
        caller.close()

    def delivered(self, caller: Peer, invocation_id: str, *, whole: bool) -> None:
        """A result that an operator was shown is not delivered to its agent."""

    async def call(self, caller: Peer, method: Method, given: dict[str, Any] | list[Any] | None) -> Json:
        """Answer one call. Raises CallerGone, or what `errors.failure` knows."""
        if not caller.alive:
            raise CallerGone
        values = params.read(method, given)
        try:
            answer: Json = await getattr(self, method.handler)(caller, **values)
            return answer
        finally:
            for value in values.values():
                if isinstance(value, bytearray):
                    overwrite(value)

    async def hello(self, caller: Peer) -> Json:
        status = await self._api.status()
        return {
            "server": f"affidavit {__version__}",
            "protocol": PROTOCOL,
            "home": self._about.home,
            "home_from": self._about.home_from,
            "pid": os.getpid(),
            "program": self._about.program,
            "vault": status["vault"],
        }

    async def status(self, caller: Peer) -> Json:
        return await self._api.status()

    async def raise_window(self, caller: Peer) -> Json:
        return {"raised": self._raise_window()}

    async def unlock(self, caller: Peer, *, passphrase: bytearray) -> Json:
        return await self._api.unlock(passphrase, program=caller.program)

    async def lock(self, caller: Peer) -> Json:
        await self._api.lock(why="operator")
        return {"vault": "locked"}

    async def approval_list(self, caller: Peer) -> Json:
        return {"cards": [cards_json.card(card, body=False) for card in self._api.cards()]}

    async def approval_show(self, caller: Peer, *, invocation_id: str, passphrase: bytearray) -> Json:
        await self._api.check_passphrase(passphrase)
        return cards_json.card(self._card(invocation_id), body=True)

    async def approval_approve(
        self, caller: Peer, *, invocation_id: str, scope: str | None, passphrase: bytearray
    ) -> Json:
        return await self._api.approve_by_passphrase(
            InvocationId(invocation_id), scope=scope, passphrase=passphrase, means="cli_passphrase"
        )

    async def approval_deny(self, caller: Peer, *, invocation_id: str, reason: str | None) -> Json:
        return await self._api.decide(InvocationId(invocation_id), Decision(approve=False, reason=reason))

    async def attest(
        self,
        caller: Peer,
        *,
        invocation_id: str,
        outcome: str,
        note: str,
        reference: str | None,
        item: str | None,
        supersedes: int | None,
        passphrase: bytearray,
    ) -> Json:
        return await self._api.attest(
            InvocationId(invocation_id),
            outcome=outcome,
            note=note,
            reference=reference,
            item=item,
            supersedes=supersedes,
            passphrase=passphrase,
        )

    async def alert_close(self, caller: Peer, *, alert_id: int, passphrase: bytearray) -> Json:
        return await self._api.alert_close(alert_id, passphrase)

    async def action_get(self, caller: Peer, *, invocation_id: str) -> Json:
        return await self._api.action_get(InvocationId(invocation_id))

    async def action_list(
        self, caller: Peer, *, outcome: str | None, state: str | None, limit: int, before: str | None
    ) -> Json:
        return await self._api.action_list(outcome=outcome, state=state, limit=limit, before=before)

    async def unknown_list(self, caller: Peer) -> Json:
        return {"rows": list(await self._api.unknown())}

    async def credential_add(
        self,
        caller: Peer,
        *,
        secret: bytearray,
        key_passphrase: bytearray | None,
        passphrase: bytearray,
        **about: Any,
    ) -> Json:
        given = {name: value for name, value in about.items() if value is not None}
        return await self._api.credential_add(given, secret, passphrase, key_passphrase=key_passphrase)

    async def credential_list(self, caller: Peer, *, passphrase: bytearray) -> Json:
        return await self._api.credential_list(passphrase)

    async def credential_rotate(
        self,
        caller: Peer,
        *,
        name: str,
        certificate: str | None,
        secret: bytearray,
        key_passphrase: bytearray | None,
        passphrase: bytearray,
    ) -> Json:
        return await self._api.credential_rotate(
            name, secret, passphrase, certificate=certificate, key_passphrase=key_passphrase
        )

    async def credential_remove(self, caller: Peer, *, name: str, passphrase: bytearray) -> Json:
        return await self._api.credential_remove(name, passphrase)

    async def host_add(self, caller: Peer, *, passphrase: bytearray, **about: Any) -> Json:
        return await self._api.host_add(about, passphrase)

    async def host_edit(self, caller: Peer, *, name: str, passphrase: bytearray, **about: Any) -> Json:
        return await self._api.host_edit(name, about, passphrase)

    async def host_list(self, caller: Peer, *, passphrase: bytearray) -> Json:
        return await self._api.host_list(passphrase)

    async def host_remove(self, caller: Peer, *, name: str, passphrase: bytearray) -> Json:
        return await self._api.host_remove(name, passphrase)

    async def host_import(
        self, caller: Peer, *, text: str, credential: str | None, user: str | None, passphrase: bytearray
    ) -> Json:
        return await self._api.host_import(text, credential=credential, user=user, passphrase=passphrase)

    async def trust_add(
        self, caller: Peer, *, name: str, ca: str, targets: Sequence[str], passphrase: bytearray
    ) -> Json:
        return await self._api.trust_add(name, ca, targets, passphrase)

    async def trust_list(self, caller: Peer, *, passphrase: bytearray) -> Json:
        return await self._api.trust_list(passphrase)

    async def trust_remove(self, caller: Peer, *, name: str, passphrase: bytearray) -> Json:
        return await self._api.trust_remove(name, passphrase)

    async def proxy_set(
        self,
        caller: Peer,
        *,
        url: str,
        credential: str | None,
        no_proxy: Sequence[str],
        trusted: bool,
        passphrase: bytearray,
    ) -> Json:
        return await self._api.proxy_set(
            url, credential=credential, no_proxy=no_proxy, trusted=trusted, passphrase=passphrase
        )

    async def proxy_show(self, caller: Peer, *, passphrase: bytearray) -> Json:
        return await self._api.proxy_show(passphrase)

    async def proxy_off(self, caller: Peer, *, passphrase: bytearray) -> Json:
        return await self._api.proxy_off(passphrase)

    async def contract_pending(self, caller: Peer) -> Json:
        return await self._api.contract_pending()

    async def contract_adopt(self, caller: Peer, *, files: Sequence[tuple[str, str]], passphrase: bytearray) -> Json:
        return await self._api.contract_adopt(files, passphrase)

    async def contract_list(self, caller: Peer) -> Json:
        return await self._api.contract_list()

    async def settings_show(self, caller: Peer) -> Json:
        return await self._api.settings_show()

    async def settings_set(self, caller: Peer, *, key: str, value: str, passphrase: bytearray) -> Json:
        return await self._api.settings_set(key, value, passphrase)

    def _card(self, invocation_id: str) -> Card:
        for card in self._api.cards():
            if card.invocation_id == invocation_id:
                return card
        raise OperatorRefused(
            "too_late", "No card waits for this invocation.", field="invocation_id", remedy="affidavit approvals"
        )
