"""The parts that windows are made of. Each shows plain data and reports what was done to it."""

from affidavit.gui.widgets.answers import ThreeAnswers
from affidavit.gui.widgets.body_view import BodyView
from affidavit.gui.widgets.buttons import ENTER_KEYS, ArmedButton, Choice, LinkButton, TickBox
from affidavit.gui.widgets.caller import CallerPanel
from affidavit.gui.widgets.fingerprint import Fingerprint
from affidavit.gui.widgets.glyph import EffectBadge, Glyph, OutcomeGlyph, OutcomeTag
from affidavit.gui.widgets.label import Label, MonoLabel, RunsLabel
from affidavit.gui.widgets.notice import NoticePanel
from affidavit.gui.widgets.panel import Bar, Panel, PanelKind, Rule
from affidavit.gui.widgets.passphrase import PassphraseField
from affidavit.gui.widgets.ring import HURRY_S, TimeRing
from affidavit.gui.widgets.target import TargetLines

__all__ = [
    "ENTER_KEYS",
    "HURRY_S",
    "ArmedButton",
    "Bar",
    "BodyView",
    "CallerPanel",
    "Choice",
    "EffectBadge",
    "Fingerprint",
    "Glyph",
    "Label",
    "LinkButton",
    "MonoLabel",
    "NoticePanel",
    "OutcomeGlyph",
    "OutcomeTag",
    "Panel",
    "PanelKind",
    "PassphraseField",
    "Rule",
    "RunsLabel",
    "TargetLines",
    "ThreeAnswers",
    "TickBox",
    "TimeRing",
]
