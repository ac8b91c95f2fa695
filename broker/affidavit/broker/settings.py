"""Settings: one table of what may be set, by whom, and which way loosens.

Files can only tighten (R73): `config/settings.toml` may lower a limit, lock sooner, turn approvals or an assumption
off, and choose looks. Whatever loosens is operator data: `affidavit settings set KEY VALUE` keeps it in the vault,
behind the passphrase. What is in force is the tighter of the two; while the vault is locked the operator's values are
not known and the defaults stand in their place.

A file's keys are the operator's keys, as TOML spells them:

    approvals = "off"
    [limit]
    actions_per_s = 5
    [lock]
    idle_s = 300
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import assert_never

from affidavit.broker.limits import Limits

Value = float | int | bool | str

FILE_MAX = 64 * 1024
"""Bytes of a settings file."""

IDLE_S = 900.0
IDLE_MOST_S = 28_800.0


class Looser(StrEnum):
    """The direction in which a value loosens."""

    MORE = "more"
    LESS = "less"
    ON = "on"
    NEITHER = "neither"
    """A matter of looks: a file may set any value, and the operator's value gives way to it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `least` and `most` bound a number for everybody; `choices` are the words of a matter of looks."""

    key: str
    default: Value
    looser: Looser
    what: str
    least: float = 0
    most: float = math.inf
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """What is in force beside the limits."""

    approvals: bool = True
    """Off: no approver is attached; whatever needs a card ends APPROVAL_UNAVAILABLE."""
    assume_reads: bool = True
    """`default.read` counts as idempotent (verdicts, Facts)."""
    idle_lock_s: float = IDLE_S
    """Seconds without an operator's act or a dispatch under a grant, after which the tray locks."""
    idle_lock_most_s: float = IDLE_MOST_S
    """Seconds after the operator's last act, after which the tray locks whatever grants are in use."""
    theme: str = "system"


class SettingRefused(Exception):
    """A key or value is not allowed. `key` is None where the text is no TOML; `file` and `line` only for a file."""

    def __init__(
        self, key: str | None, message: str, remedy: str, *, file: Path | None = None, line: int | None = None
    ) -> None:
        place = "" if file is None else f"{file}: " if line is None else f"{file}, line {line}: "
        super().__init__(f"{place}{message}")
        self.key = key
        self.message = message
        self.remedy = remedy
        self.file = file
        self.line = line


_LIMITS: tuple[tuple[str, Looser, float, float, str], ...] = (
    ("deadline_http_s", Looser.MORE, 0.1, 3600, "deadline of an HTTP action that names none, seconds"),
    ("deadline_max_s", Looser.MORE, 1, 3600, "longest deadline an agent may ask for, seconds"),
    ("wait_s", Looser.MORE, 0, 600, "how long a call waits before it is answered pending, seconds"),
    ("wait_max_s", Looser.MORE, 0, 600, "longest wait an agent may ask for, seconds"),
    ("recovery_s", Looser.MORE, 10, 86_400, "how long an outcome is looked for after its deadline, seconds"),
    ("key_window_s", Looser.MORE, 0, 86_400, "how long a key counts where its contract is silent, seconds"),
    ("dns_s", Looser.MORE, 0.1, 60, "limit of the name look-up, seconds"),
    ("tcp_connect_s", Looser.MORE, 0.1, 60, "limit of the connect, seconds"),
    ("tls_handshake_s", Looser.MORE, 0.1, 60, "limit of the TLS handshake, seconds"),
    ("proxy_tunnel_s", Looser.MORE, 0.1, 60, "limit of the proxy's tunnel, TLS with the proxy included, seconds"),
    ("setup_tries", Looser.MORE, 1, 5, "set-up tries inside one invocation"),
    ("attempts", Looser.MORE, 1, 10, "dispatches of one operation where its contract is silent"),
    ("lease_s", Looser.LESS, 1, 3600, "how long a repeat may take from its decision to its dispatch, seconds"),
    ("connections", Looser.MORE, 1, 4096, "connections to the agent socket"),
    ("body", Looser.MORE, 0, 64 * 1024**2, "request body, bytes"),
    ("request_head", Looser.MORE, 1024, 1024**2, "request head, bytes"),
    ("url", Looser.MORE, 64, 64 * 1024, "URL, bytes"),
    ("reason_chars", Looser.MORE, 0, 4000, "an agent's reason, characters"),
    ("response_head", Looser.MORE, 1024, 1024**2, "response head, bytes"),
    ("result", Looser.MORE, 0, 64 * 1024**3, "stored result, bytes"),
    ("open_actions", Looser.MORE, 1, 4096, "open actions, all sessions"),
    ("open_actions_session", Looser.MORE, 1, 4096, "open actions of one session"),
    ("actions_per_s", Looser.MORE, 0.1, 1_000_000, "new actions of one session a second, after its burst"),
    ("actions_burst", Looser.MORE, 1, 1_000_000, "new actions of one session at once"),
    ("kept_reading", Looser.MORE, 0, 1024, "connections still read after a verdict"),
    ("loop_count", Looser.MORE, 2, 1000, "the same invalid request, times until it is slowed down"),
    ("loop_window_s", Looser.LESS, 1, 3600, "the window in which they are counted, seconds"),
    ("loop_delay_s", Looser.LESS, 0, 30, "the first delay of such a request, seconds"),
    ("loop_delay_max_s", Looser.LESS, 0, 600, "its longest delay, seconds"),
    ("card_shown_s", Looser.MORE, 10, 3600, "life of a card once shown, seconds"),
    ("card_unshown_s", Looser.MORE, 10, 86_400, "life of a card that was never shown, seconds"),
    ("card_headless_s", Looser.MORE, 10, 86_400, "life of a card without a screen, seconds"),
    ("cards_session", Looser.MORE, 1, 100, "waiting cards of one session"),
    ("grant_s", Looser.MORE, 0, 86_400, "life of a grant, seconds"),
    ("result_days", Looser.MORE, 0, 3650, "how long results are kept, days"),
    ("free_space", Looser.LESS, 0, 1024**4, "free space that is kept, bytes"),
    ("free_space_share", Looser.LESS, 0, 0.9, "free space that is kept, share of the disk"),
)
"""The limits that may be set; the others are parts of the protocol or of the proof."""


def _table() -> dict[str, Setting]:
    limits = Limits()
    rows = [
        Setting("approvals", True, Looser.ON, "whether an approver is attached"),
        Setting("assume_reads", True, Looser.ON, "whether a read without a contract counts as idempotent"),
        Setting("lock.idle_s", IDLE_S, Looser.MORE, "idle time until the tray locks, seconds", 10, IDLE_MOST_S),
        Setting("lock.most_s", IDLE_MOST_S, Looser.MORE, "time until it locks whatever is in use", 10, IDLE_MOST_S),
        Setting("look.theme", "system", Looser.NEITHER, "colours", choices=("system", "light", "dark")),
    ]
    for name, looser, least, most, what in _LIMITS:
        rows.append(Setting(f"limit.{name}", getattr(limits, name), looser, what, least, most))
    return {row.key: row for row in rows}


SETTINGS: Mapping[str, Setting] = _table()


def parse_value(key: str, text: str) -> Value:
    """A value as the command line gives it. SettingRefused for an unknown key or a value that does not fit."""
    setting = _setting(key)
    text = text.strip()
    match setting.default:
        case bool():
            words = {"on": True, "true": True, "off": False, "false": False}
            value: Value = words.get(text.lower(), text)
        case int() | float():
            value = _number(text)
        case str():
            value = text
        case _:
            assert_never(setting.default)
    return checked(key, value)


def format_value(value: Value) -> str:
    """The inverse of `parse_value`, as it is stored and shown."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def checked(key: str, value: object) -> Value:
    """`value` if it fits the setting `key`; else SettingRefused, which never repeats the value."""
    setting = _setting(key)
    default = setting.default
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        if value in ("on", "off"):
            return value == "on"
        raise SettingRefused(key, f"{key} is on or off.", f"Such as: affidavit settings set {key} off")
    if isinstance(default, str):
        if isinstance(value, str) and value in setting.choices:
            return value
        raise SettingRefused(key, f"{key} is one of: {', '.join(setting.choices)}.", "Choose one of them.")
    whole = isinstance(default, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not math.isfinite(value):
        raise SettingRefused(key, f"{key} is a {'whole ' if whole else ''}number.", f"The default is {default}.")
    if not setting.least <= value <= setting.most:
        bounds = f"from {setting.least:g} to {setting.most:g}"
        raise SettingRefused(key, f"{key} must be {bounds}.", f"The default is {default}.")
    return value


def parse_file(text: str, file: Path) -> dict[str, Value]:
    """Settings by key from the text of a settings file: all of them, or SettingRefused with file, line and remedy."""
    if len(text.encode()) > FILE_MAX:
        raise SettingRefused(None, f"The file is over {FILE_MAX} bytes.", "Keep settings alone in it.", file=file)
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line (\d+)", str(error))
        line = int(place[1]) if place else None
        raise SettingRefused(None, "This is not TOML.", "Correct the line.", file=file, line=line) from None
    found: dict[str, Value] = {}
    for key, value in _flat(parsed):
        try:
            one = checked(key, value)
            default = SETTINGS[key].default
            if _is_looser(SETTINGS[key], one, default):
                raise SettingRefused(
                    key,
                    f"{key} would loosen here; a file can only tighten (the default is {format_value(default)}).",
                    f"Take the line out; with the passphrase: affidavit settings set {key} {format_value(one)}",
                )
        except SettingRefused as refused:
            line = _line_of(text, key)
            raise SettingRefused(refused.key, refused.message, refused.remedy, file=file, line=line) from None
        found[key] = one
    return found


def read_file(file: Path) -> dict[str, Value]:
    """`parse_file` of what lies there; empty if nothing does."""
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_MAX + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingRefused(None, "The file cannot be read.", "Check its owner and mode.", file=file) from error
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise SettingRefused(None, "The file is not UTF-8.", "Save it as UTF-8.", file=file) from None
    return parse_file(text, file)


def effective(
    limits: Limits, file_settings: Mapping[str, Value], operator_settings: Mapping[str, Value]
) -> tuple[Limits, Settings]:
    """What is in force: the operator's value, else the default of `limits`, each tightened by the file's.

    Both mappings hold checked values by key. Pure: the same values give the same answer.
    """

    def in_force(key: str, default: Value) -> Value:
        value = operator_settings.get(key, default)
        if key in file_settings:
            bound = file_settings[key]
            return value if _is_looser(SETTINGS[key], bound, value) else bound
        return value

    settable = {f.name for f in fields(Limits)} & {key.removeprefix("limit.") for key in SETTINGS}
    changed = {name: in_force(f"limit.{name}", getattr(limits, name)) for name in settable}
    plain = Settings()
    settings = Settings(
        approvals=bool(in_force("approvals", plain.approvals)),
        assume_reads=bool(in_force("assume_reads", plain.assume_reads)),
        idle_lock_s=float(in_force("lock.idle_s", plain.idle_lock_s)),
        idle_lock_most_s=float(in_force("lock.most_s", plain.idle_lock_most_s)),
        theme=str(in_force("look.theme", plain.theme)),
    )
    return replace(limits, **changed), settings  # type: ignore[arg-type]


def _is_looser(setting: Setting, value: Value, than: Value) -> bool:
    """Whether `value` is looser than `than`; both fit the setting."""
    match setting.looser:
        case Looser.MORE:
            return float(value) > float(than)
        case Looser.LESS:
            return float(value) < float(than)
        case Looser.ON:
            return bool(value) and not than
        case Looser.NEITHER:
            return False


def _setting(key: str) -> Setting:
    setting = SETTINGS.get(key)
    if setting is None:
        raise SettingRefused(
            key, f"There is no setting {key[:80]!r}.", "affidavit settings show lists them with their values."
        )
    return setting


def _number(text: str) -> Value:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _flat(parsed: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Tables opened into dotted keys, in the order of the file."""
    found: list[tuple[str, object]] = []
    for name, value in parsed.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and (value or any(known.startswith(f"{key}.") for known in SETTINGS)):
            found += _flat(value, f"{key}.")
        else:
            found.append((key, value))
    return found


def _line_of(text: str, key: str) -> int | None:
    """The line on which `key` is given a value, whether under its table's header or dotted; None if not found."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.fullmatch(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?", line)
        if header:
            table = _plain(header[1]) + "."
            continue
        name, equals, rest = line.partition("=")
        if not equals:
            continue
        here = table + _plain(name)
        if here == key or (key.startswith(here + ".") and rest.lstrip().startswith("{")):
            return number
    return None


def _plain(name: str) -> str:
    """A TOML key without the quotes and blanks around its parts."""
    return ".".join(part.strip().strip("\"'") for part in name.split("."))
