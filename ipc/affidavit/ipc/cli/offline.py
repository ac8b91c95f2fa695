"""Operator's calls while no broker runs: take the home, open vault and journal, make the change, record it, go.

The params are read by the same method table as on the socket, so a command behaves the same either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from affidavit.broker.api import BadParam, OperatorApi, OperatorRefused
from affidavit.broker.home import HomeBusy, HomeRefused, Places
from affidavit.ipc import params as wire_params
from affidavit.ipc.cli import exits, link
from affidavit.ipc.cli.refusal import Refusal, usage
from affidavit.ipc.methods import METHODS

Handler = Callable[[OperatorApi, Mapping[str, Any]], Awaitable[Any]]

HANDLERS: dict[str, Handler] = {
    "credential.add": lambda api, given: api.credential_add(
        {name: value for name, value in given.items() if name not in ("secret", "key_passphrase", "passphrase")},
        given["secret"],
        given["passphrase"],
        key_passphrase=given["key_passphrase"],
    ),
    "credential.list": lambda api, given: api.credential_list(given["passphrase"]),
    "credential.rotate": lambda api, given: api.credential_rotate(
        given["name"],
        given["secret"],
        given["passphrase"],
        certificate=given["certificate"],
        key_passphrase=given["key_passphrase"],
    ),
    "credential.remove": lambda api, given: api.credential_remove(given["name"], given["passphrase"]),
    "host.add": lambda api, given: api.host_add(
        {name: value for name, value in given.items() if name != "passphrase"}, given["passphrase"]
    ),
    "host.edit": lambda api, given: api.host_edit(
        given["name"],
        {name: value for name, value in given.items() if name not in ("name", "passphrase")},
        given["passphrase"],
    ),
    "host.list": lambda api, given: api.host_list(given["passphrase"]),
    "host.remove": lambda api, given: api.host_remove(given["name"], given["passphrase"]),
    "host.import": lambda api, given: api.host_import(
        given["text"], credential=given["credential"], user=given["user"], passphrase=given["passphrase"]
    ),
    "trust.add": lambda api, given: api.trust_add(given["name"], given["ca"], given["targets"], given["passphrase"]),
    "trust.list": lambda api, given: api.trust_list(given["passphrase"]),
    "trust.remove": lambda api, given: api.trust_remove(given["name"], given["passphrase"]),
    "proxy.set": lambda api, given: api.proxy_set(
        given["url"],
        credential=given["credential"],
        no_proxy=given["no_proxy"],
        trusted=given["trusted"],
        passphrase=given["passphrase"],
    ),
    "proxy.show": lambda api, given: api.proxy_show(given["passphrase"]),
    "proxy.off": lambda api, given: api.proxy_off(given["passphrase"]),
    "contract.adopt": lambda api, given: api.contract_adopt(given["files"], given["passphrase"]),
    "settings.show": lambda api, given: api.settings_show(),
    "settings.set": lambda api, given: api.settings_set(given["key"], given["value"], given["passphrase"]),
}
"""What can be done without a broker (interface, Operator commands)."""


def call(home: Places, method: str, params: Mapping[str, Any], secret: bytearray | None) -> dict[str, Any]:
    """One call on the home's own vault and journal. Raises Refusal."""
    from affidavit.broker.hardening import harden
    from affidavit.broker.offline import offline_operator

    harden()
    given = dict(params)
    try:
        read = wire_params.read(METHODS["operator"][method], with_passphrase(given, secret))

        async def run() -> Any:
            async with offline_operator(home) as api:
                return await HANDLERS[method](api, read)

        return dict(asyncio.run(run()))
    except BadParam as bad:
        raise usage(bad.message, field=bad.field) from None
    except OperatorRefused as refused:
        raise link.operator_refused(refused.code, refused.message, refused.field, refused.remedy) from None
    except HomeBusy as busy:
        remedy = "Wait for it, or stop it; then try again."
        raise Refusal(exits.REFUSED, "busy", str(busy), remedy=remedy) from None
    except HomeRefused as refused:
        raise link.home_refused(refused) from None


def with_passphrase(given: dict[str, Any], secret: bytearray | None) -> dict[str, Any]:
    if secret is not None:
        given["passphrase"] = secret.decode("utf-8", "surrogateescape")
    return given
