"""Agents in processes of their own, written as the manual says: its code is what runs here (docs/agents.md)."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from tests.e2e.agent import Agent
from tests.e2e.conftest import World
from tests.e2e.ledger import Ledger
from tests.e2e.rig import Home, new_operation, until
from tests.e2e.target import Call

MANUAL = Path(__file__).parents[2] / "docs" / "agents.md"
EXAMPLES = [part for part in re.findall(r"```python\n(.*?)```", MANUAL.read_text(), re.S) if "__main__" in part]
LOOP = next(part for part in EXAMPLES if "def perform" in part)
ASYNC = next(part for part in EXAMPLES if "asyncio" in part)


def url(home: Home, name: str) -> str:
    return f"http://127.0.0.1:{home.setting.target_port}/{name}"


def loses_one(ledger: Ledger, world: World, name: str) -> None:
    """The first request is applied; its answer is held back, and never comes."""

    def first(call: Call) -> None:
        world.target.scripts[f"/{name}"] = ledger.apply
        ledger.losing = 1
        ledger.apply(call)
        call.hold()

    world.target.scripts[f"/{name}"] = first


def test_a_restarted_agent_goes_on_from_the_record(ruled: Home, world: World, ledger: Ledger) -> None:
    """R65: killed in mid-call. The next one has the same words and no memory, and nothing happens twice."""
    operation, before = new_operation(), len(world.target.arrivals("/keyed"))
    loses_one(ledger, world, "keyed")
    with ruled.serve():
        killed = Agent(ruled, LOOP, operation, url(ruled, "keyed"))
        held = world.target.calls("/keyed", before + 1)[-1]
        killed.kill()
        held.release.set()
        assert Agent(ruled, LOOP, operation, url(ruled, "keyed")).said()[:2] == ["committed", "REMOTE_RESULT"]
        sent = len(world.target.arrivals("/keyed"))
        assert Agent(ruled, LOOP, operation, url(ruled, "keyed")).said()[:2] == ["committed", "REMOTE_RESULT"]
    assert len(world.target.arrivals("/keyed")) == sent == before + 2
    assert len(ledger.effects) == 1
    assert ruled.intact()


def test_an_agent_outlives_the_broker(ruled: Home, world: World, ledger: Ledger) -> None:
    """The broker is killed in mid-call; the agent's loop finds the next one and looks up, and sends nothing again."""
    operation, before = new_operation(), len(world.target.arrivals("/seen"))
    loses_one(ledger, world, "seen")
    with ruled.serve() as broker:
        agent = Agent(ruled, LOOP, operation, url(ruled, "seen"))
        world.target.calls("/seen", before + 1)
        broker.kill()
    with ruled.serve():
        assert agent.said()[:2] == ["committed", "SETTLED_BY_QUERY"]
    assert len(world.target.arrivals("/seen")) == before + 1
    assert len(ledger.effects) == 1


def test_two_agents_with_one_operation(ruled: Home, world: World, ledger: Ledger) -> None:
    """R77: both hear that the answer is lost, both may repeat; one repeat goes out, and both hear its result."""
    operation, before = new_operation(), len(world.target.arrivals("/keyed"))
    ledger.losing = 1
    with ruled.serve():
        agents = [Agent(ruled, LOOP, operation, url(ruled, "keyed")) for _ in range(2)]
        said = [agent.said() for agent in agents]
    assert [words[:2] for words in said] == [["committed", "REMOTE_RESULT"]] * 2
    assert said[0] == said[1]
    assert len(world.target.arrivals("/keyed")) == before + 2
    assert len(ledger.effects) == 1


def test_the_asyncio_example(ruled: Home, world: World, ledger: Ledger) -> None:
    ledger.losing = 1
    with ruled.serve():
        assert Agent(ruled, ASYNC, new_operation(), url(ruled, "keyed")).said()[:2] == ["committed", "REMOTE_RESULT"]
    assert len(ledger.effects) == 1


def test_a_complete_500_of_a_read_is_returned_and_may_be_repeated(ruled: Home, world: World) -> None:
    code = """
        import sys
        from affidavit.ipc.client import Client, Retryable
        with Client.agent() as broker:
            first = broker.act("http.request", {"method": "GET", "url": sys.argv[1]})
            assert isinstance(first, Retryable), first.envelope
            second = first.retry()
            for verdict in (first, second):
                print(verdict.outcome, verdict.envelope["http"]["status"], isinstance(verdict, Retryable))
    """
    statuses = iter((500, 200))
    world.target.scripts["/flaky"] = lambda call: call.answer(next(statuses), b"")
    with ruled.serve():
        said = Agent(ruled, textwrap.dedent(code), url(ruled, "flaky")).said()
    del world.target.scripts["/flaky"]
    assert said == ["committed", "500", "True", "committed", "200", "False"]


def test_a_loop_of_one_invalid_request_is_told_and_slowed(ruled: Home, world: World, ledger: Ledger) -> None:
    """R10: also where the client makes a new operation id for each call."""
    code = """
        import sys
        from affidavit.ipc.client import ActionFailed, Client, Retryable
        with Client.agent() as broker:
            for _ in range(6):
                try:
                    broker.act("http.request", {"method": "POST", "url": sys.argv[1], "headers": {"Cookie": "a=b"}})
                except ActionFailed as failed:
                    print(failed.code, isinstance(failed, Retryable), failed.envelope["invocation_id"])
    """
    before = len(world.target.arrivals("/plain"))
    with ruled.serve():
        said = Agent(ruled, textwrap.dedent(code), url(ruled, "plain")).said()
    codes, retryable, invocations = said[::3], said[1::3], said[2::3]
    assert codes == ["HEADER_FORBIDDEN"] * 4 + ["REQUEST_LOOP"] * 2
    assert set(retryable) == {"False"}
    assert len(set(invocations)) == 5
    assert invocations[4] == invocations[5]
    assert len(world.target.arrivals("/plain")) == before
    assert ledger.effects == []


def test_repeating_an_unknown_shows_a_card_also_where_nobody_would_be_asked(
    ruled: Home, world: World, ledger: Ledger
) -> None:
    """R68: the contract's approval is `never`; the unsafe repeat waits for a person all the same, who may refuse."""
    code = """
        import sys
        from affidavit.ipc.client import ActionFailed, Client, Unresolved
        with Client.agent() as broker:
            try:
                broker.act("http.request", {"method": "POST", "url": sys.argv[1], "body": "x"})
            except ActionFailed as failed:
                unknown = failed
            assert isinstance(unknown, Unresolved) and not hasattr(unknown, "retry"), unknown
            try:
                unknown.repeat_unsafely()
            except ActionFailed as refused:
                print(refused.outcome, refused.code)
    """
    before = len(world.target.arrivals("/plain"))
    ledger.losing = 1
    with ruled.serve() as broker, broker.operator() as operator:
        agent = Agent(ruled, textwrap.dedent(code), url(ruled, "plain"))
        world.target.calls("/plain", before + 1)
        until(lambda: bool(operator.call("approval.list")["cards"]), "a card")
        (card,) = operator.call("approval.list")["cards"]
        assert card["tick"] is not None
        assert ruled.run("deny", str(card["invocation_id"])).status == 0
        assert agent.said() == ["not_attempted", "APPROVAL_DENIED"]
    assert len(world.target.arrivals("/plain")) == before + 1
