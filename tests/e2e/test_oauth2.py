"""A token over real sockets: asked for once, used, replaced, and found nowhere (R16)."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable

from tests.e2e.conftest import World
from tests.e2e.needles import Needles, files, texts
from tests.e2e.rig import Home, answer, facts
from tests.e2e.target import Call


def test_tokens_are_got_used_renewed_and_kept_nowhere(world: World, new_home: Callable[[], Home]) -> None:
    home, place = new_home(), f"http://127.0.0.1:{world.target.port}"
    token_path, path = f"/login-{secrets.token_hex(4)}", f"/crm-{secrets.token_hex(4)}"
    tokens = [secrets.token_urlsafe(24) for _ in range(2)]
    refreshes = [secrets.token_urlsafe(24) for _ in range(3)]
    client_secret = secrets.token_urlsafe(24)

    def login(call: Call) -> None:
        n = len(world.target.arrivals(token_path)) - 1
        granted = {"access_token": tokens[n], "token_type": "bearer", "expires_in": 3600}
        call.answer(200, json.dumps({**granted, "refresh_token": refreshes[n + 1]}).encode())

    def crm(call: Call) -> None:
        old = call.arrival.header("Authorization") == f"Bearer {tokens[0]}" and call.arrival.body == b"late"
        call.answer(401 if old else 201, f"you said {call.arrival.header('Authorization')}".encode())

    world.target.scripts |= {token_path: login, path: crm}
    words = ("--token-url", place + token_path, "--client-id", "4711", "--refresh", "--target", f"{place}{path}/**")
    made = home.operate(
        "credential", "add", "crm", "--kind", "oauth2", *words, "--target", place + path,
        secret=f"{refreshes[0]}\n{client_secret}",
    )  # fmt: skip
    assert made.status == 0, made
    said = []
    with home.serve() as broker, broker.agent() as agent:
        for body, outcome in (("one", "committed"), ("two", "committed"), ("late", "rejected"), ("four", "committed")):
            params = {"method": "POST", "url": place + path, "body": body, "credential": "crm"}
            said.append(answer(agent, "http.request", params))
            assert facts(said[-1])["outcome"] == outcome, said[-1]
            assert said[-1]["http"]["body"]["text"] == "you said [redacted]"
        rows = agent.call("action.list", {"scope": "all"})["rows"]
        assert len(rows) == 6
        assert broker.stop() == 0
    sent = [arrival.header("Authorization") for arrival in world.target.arrivals(path)]
    assert sent == [f"Bearer {tokens[0]}"] * 3 + [f"Bearer {tokens[1]}"]
    first, second = world.target.arrivals(token_path)
    assert f"refresh_token={refreshes[0]}".encode() in first.body
    assert f"refresh_token={refreshes[1]}".encode() in second.body
    needles = Needles(
        **{f"token {n}": each for n, each in enumerate(tokens)},
        **{f"refresh {n}": each for n, each in enumerate(refreshes)},
        client=client_secret,
    )
    told = [json.dumps(each) for each in said]
    assert needles.found([*files(home.root), *texts("said", [*home.heard, *told])]) == []
    assert home.intact()
