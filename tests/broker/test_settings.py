"""A file can only tighten, the operator may loosen within bounds, and what is in force is the tighter of the two."""

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.limits import Limits
from affidavit.broker.settings import (
    SETTINGS,
    Looser,
    Setting,
    SettingRefused,
    Settings,
    Value,
    checked,
    effective,
    format_value,
    parse_file,
    parse_value,
    read_file,
)

FILE = Path("/home/u/.config/affidavit/settings.toml")
EXAMPLE = """\
approvals = "off"
assume_reads = false
look.theme = "dark"

[limit]
actions_per_s = 5       # a number
"body" = 1024

[lock]
idle_s = 300
"""


def refused(text: str) -> SettingRefused:
    with pytest.raises(SettingRefused) as caught:
        parse_file(text, FILE)
    assert caught.value.file == FILE
    assert str(FILE) in str(caught.value)
    assert caught.value.remedy
    return caught.value


def test_the_table_fits_the_limits_and_itself() -> None:
    limits = {field.name for field in fields(Limits)}
    for key, setting in SETTINGS.items():
        assert setting.key == key
        assert checked(key, setting.default) == setting.default
        if key.startswith("limit."):
            assert key.removeprefix("limit.") in limits


def test_the_example() -> None:
    assert parse_file(EXAMPLE, FILE) == {
        "approvals": False,
        "assume_reads": False,
        "look.theme": "dark",
        "limit.actions_per_s": 5,
        "limit.body": 1024,
        "lock.idle_s": 300,
    }
    assert parse_file("", FILE) == {}
    assert parse_file("[limit]\n", FILE) == {}
    assert parse_file("limit = { body = 3 }\n", FILE) == {"limit.body": 3}


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("\n\ncolour = 1\n", "colour", 3),
        ("[limit]\nbody = 1\nbodies = 2\n", "limit.bodies", 3),
        ("[limits]\nbody = 1\n", "limits.body", 2),
        ("[nothing]\n", "nothing", None),
        ("limit = { body = 'x' }\n", "limit.body", 1),
        ("limit . body = 'x'\n", "limit.body", 1),
        ("[limit]\nbody = 1.5\n", "limit.body", 2),
        ("[limit]\nbody = true\n", "limit.body", 2),
        ("[limit]\nbody = -1\n", "limit.body", 2),
        ("[limit]\nactions_per_s = nan\n", "limit.actions_per_s", 2),
        ("[limit]\nactions_per_s = inf\n", "limit.actions_per_s", 2),
        ("[limit]\nbody = [1]\n", "limit.body", 2),
        ("approvals = 'maybe'\n", "approvals", 1),
        ("approvals = 0\n", "approvals", 1),
        ("[look]\ntheme = 'pink'\n", "look.theme", 2),
        ("[limit]\n# loosens\nbody = 60000000\n", "limit.body", 3),
        ("[limit]\nfree_space = 0\n", "limit.free_space", 2),
        ("[lock]\nidle_s = 901\n", "lock.idle_s", 2),
        ("[limit]\nline = 1\n", "limit.line", 2),
    ],
)
def test_bad_keys_and_values_name_file_line_and_key(text: str, key: str, line: int | None) -> None:
    error = refused(text)
    assert (error.key, error.line) == (key, line)


def test_what_would_loosen_names_the_operators_way() -> None:
    error = refused("[limit]\nopen_actions_session = 1000\n")
    assert "only tighten" in error.message
    assert "affidavit settings set limit.open_actions_session 1000" in error.remedy


def test_text_that_is_no_toml() -> None:
    error = refused("approvals = 'off'\nbroken\n")
    assert (error.key, error.line) == (None, 2)


def test_a_file_has_a_size(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    assert read_file(file) == {}
    file.write_text(EXAMPLE)
    assert read_file(file)["limit.body"] == 1024
    for content in (b"# " + b"x" * 65536, b"\xff"):
        file.write_bytes(content)
        with pytest.raises(SettingRefused) as caught:
            read_file(file)
        assert caught.value.file == file
    file.unlink()
    file.mkdir()
    with pytest.raises(SettingRefused):
        read_file(file)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("assume_reads", "off", False),
        ("assume_reads", " ON ", True),
        ("limit.open_actions_session", "1000", 1000),
        ("limit.actions_per_s", "0.5", 0.5),
        ("limit.actions_per_s", "1000", 1000),
        ("look.theme", "light", "light"),
    ],
)
def test_the_operators_words(key: str, text: str, value: Value) -> None:
    assert parse_value(key, text) == value
    assert parse_value(key, format_value(value)) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("assume_reads", "perhaps"),
        ("assume_reads", "1"),
        ("limit.open_actions_session", "0"),
        ("limit.open_actions_session", "5000"),
        ("limit.open_actions_session", "1.5"),
        ("limit.actions_per_s", "nan"),
        ("limit.actions_per_s", ""),
        ("look.theme", "pink"),
        ("no.such", "1"),
    ],
)
def test_the_operator_has_bounds_too(key: str, text: str) -> None:
    with pytest.raises(SettingRefused) as caught:
        parse_value(key, text)
    assert caught.value.key == key
    assert caught.value.file is None
    assert caught.value.remedy


def test_nothing_set_is_the_defaults() -> None:
    assert effective(Limits(), {}, {}) == (Limits(), Settings())


def test_the_operator_loosens_and_the_file_tightens() -> None:
    operator: dict[str, Value] = {"limit.body": 60_000_000, "limit.actions_burst": 100_000, "assume_reads": True}
    limits, settings = effective(Limits(), {}, operator)
    assert (limits.body, limits.actions_burst, settings.assume_reads) == (60_000_000, 100_000, True)
    file = parse_file("assume_reads = 'off'\napprovals = 'off'\nlook.theme='dark'\n[limit]\nbody = 10\n", FILE)
    limits, settings = effective(Limits(), file, operator)
    assert (limits.body, limits.actions_burst) == (10, 100_000)
    assert settings == Settings(approvals=False, assume_reads=False, theme="dark")


def test_a_tighter_operator_is_not_loosened_by_a_file() -> None:
    file = parse_file("[limit]\nbody = 1000\nfree_space = 3000000000\n[lock]\nidle_s = 600\nmost_s = 700\n", FILE)
    limits, settings = effective(
        Limits(), file, {"limit.body": 10, "limit.free_space": 5_000_000_000, "lock.idle_s": 60, "approvals": False}
    )
    assert (limits.body, limits.free_space) == (10, 5_000_000_000)
    assert (settings.idle_lock_s, settings.idle_lock_most_s, settings.approvals) == (60, 700, False)


def values(setting: Setting) -> st.SearchStrategy[Value]:
    if isinstance(setting.default, bool):
        return st.booleans()
    if isinstance(setting.default, str):
        return st.sampled_from(setting.choices)
    if isinstance(setting.default, int):
        return st.integers(int(setting.least), int(setting.most))
    return st.floats(setting.least, setting.most)


some = st.fixed_dictionaries({}, optional={key: values(setting) for key, setting in SETTINGS.items()})


def flat(limits: Limits, settings: Settings) -> dict[str, Value]:
    found: dict[str, Value] = {f"limit.{field.name}": getattr(limits, field.name) for field in fields(Limits)}
    return found | {
        "approvals": settings.approvals,
        "assume_reads": settings.assume_reads,
        "lock.idle_s": settings.idle_lock_s,
        "lock.most_s": settings.idle_lock_most_s,
        "look.theme": settings.theme,
    }


@given(file=some, operator=some)
def test_a_file_never_loosens_whatever_it_says(file: dict[str, Value], operator: dict[str, Value]) -> None:
    without = flat(*effective(Limits(), {}, operator))
    with_file = flat(*effective(Limits(), file, operator))
    for key, setting in SETTINGS.items():
        before, after = without[key], with_file[key]
        match setting.looser:
            case Looser.MORE:
                assert float(after) <= float(before)
            case Looser.LESS:
                assert float(after) >= float(before)
            case Looser.ON:
                assert not (after and not before)
            case Looser.NEITHER:
                assert after == file.get(key, before)
    for key in without.keys() - SETTINGS.keys():
        assert with_file[key] == getattr(Limits(), key.removeprefix("limit."))
