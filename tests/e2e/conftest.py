"""One practice service, one target and one made home for the whole run; each test works on a copy of that home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.hostile import Ground, Prepared, ground, prepared
from tests.e2e.ledger import RULES, Ledger, contract
from tests.e2e.rig import (
    Home,
    Practice,
    Setting,
    closed_socket,
    copy_of,
    make_template,
    new_passphrase,
    new_secret,
    temporary,
)
from tests.e2e.target import Mute, Target


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.e2e)


@dataclass(frozen=True, slots=True)
class World:
    """What stands around the homes."""

    setting: Setting
    practice: Practice
    target: Target
    mute: Mute
    template: Home


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    secret = new_secret()
    practice = Practice(tmp_path_factory.mktemp("practice"), secret)
    target, mute, closed = Target(), Mute(), closed_socket()
    root = temporary()
    try:
        setting = Setting(
            passphrase=new_passphrase(),
            secret=secret,
            practice_port=practice.port,
            target_port=target.port,
            tls_port=mute.port,
            closed_port=closed.getsockname()[1],
        )
        template = make_template(root, setting)
        yield World(setting, practice, target, mute, template)
        template.remove()
    finally:
        closed.close()
        mute.close()
        target.close()
        practice.close()


@pytest.fixture
def new_home(world: World) -> Iterator[Callable[[], Home]]:
    """Makes homes that are ready to be served; they go with the test."""
    made: list[Home] = []

    def make() -> Home:
        home = copy_of(world.template)
        made.append(home)
        return home

    yield make
    for home in made:
        home.remove()


@pytest.fixture
def home(new_home: Callable[[], Home]) -> Home:
    return new_home()


@pytest.fixture
def ledger(world: World) -> Iterator[Ledger]:
    before = dict(world.target.scripts)
    yield Ledger(world)
    world.target.scripts.clear()
    world.target.scripts.update(before)


@pytest.fixture
def ruled(home: Home) -> Home:
    """A home with the ledger's contracts."""
    port = home.setting.target_port
    for name, rest in RULES.items():
        text = contract(name, port, rest.format(port=port))
        (home.places.contracts / f"recovery-{name}.toml").write_text(text)
    adopted = home.operate("contract", "adopt", "--all")
    assert adopted.status == 0, adopted
    return home


@pytest.fixture(scope="module")
def ready(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    with prepared(world.template, tmp_path_factory.mktemp("hostile")) as made:
        yield made


@pytest.fixture(scope="module")
def here(ready: Prepared) -> Iterator[Ground]:
    with ground(ready) as made:
        yield made
