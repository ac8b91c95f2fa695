"""The page of SSH hosts: entries and their keys. What it changes it changes under the passphrase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFileDialog, QFrame, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from affidavit.broker.api import Json
from affidavit.gui import hosts_view, theme
from affidavit.gui import texts_unknown as texts
from affidavit.gui.bridge import Bridge
from affidavit.gui.headings import Heading
from affidavit.gui.hosts_view import HostRow, KeyRow
from affidavit.gui.runs import Mark, Run
from affidavit.gui.sign_window import SignWords
from affidavit.gui.signed_call import Call, SignedCall
from affidavit.gui.theme import TextStyle
from affidavit.gui.widgets.label import Label, RunsLabel
from affidavit.gui.widgets.panel import Panel
from affidavit.ipc.methods import TEXT_CHARS

_FORGET, _REMOVE, _IMPORT = (
    SignWords(word, texts.HOSTS_ENTER.format(sign=word), texts.HOSTS_NEEDED, texts.HOSTS_BUSY, icon)
    for word, icon in ((texts.HOST_FORGET, "end"), (texts.HOST_REMOVE, "end"), (texts.HOST_IMPORT, "add"))
)


class HostsPage(QScrollArea):
    """A panel for each entry. What it changes it asks the broker for; whoever shows it reads the entries anew."""

    changed = Signal()
    """An entry was changed from here."""

    def __init__(self, bridge: Bridge, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._shown: tuple[HostRow, ...] = ()
        self._panels: list[HostPanel] = []
        self.signing: SignedCall | None = None
        self._import = QPushButton(texts.HOST_IMPORT_ASK)
        self._import.setAutoDefault(False)
        self._import.setAccessibleDescription(texts.HOST_IMPORT_WHAT)
        self._import.clicked.connect(self.choose_file)
        self._count = Label(style=TextStyle.CAPTION, token="ink2")
        self._said = Label(token="ink2", wrap=True)
        self._lay_out()
        self._say("")
        self.show_hosts(())

    def show_hosts(self, rows: Sequence[Json], *, refused: str = "") -> None:
        """Show these entries, or why they are `refused`. Where they are the same as before, nothing is built anew and
        the focus stays."""
        self._import.setEnabled(not refused)
        self._count.setText(hosts_view.count_line(rows))
        self._count.setVisible(bool(rows))
        self._empty.setText(refused or texts.HOSTS_EMPTY)
        self._empty.setVisible(not rows)
        shown = hosts_view.hosts(rows)
        if shown == self._shown:
            return
        self._shown = shown
        for old in self._panels:
            self._list.removeWidget(old)
            old.deleteLater()
        self._panels = [HostPanel(row) for row in shown]
        for panel in self._panels:
            panel.forget_asked.connect(self.ask_forget)
            panel.remove_asked.connect(self.ask_remove)
            self._list.addWidget(panel)
        theme.tab_order([self, self._import, *(button for panel in self._panels for button in panel.buttons)])

    @Slot(object, object)
    def ask_forget(self, row: HostRow, key: KeyRow) -> None:
        """Show the window that forgets a key."""
        what = texts.HOST_FORGET_WHAT.format(host=row.title)
        body = [RunsLabel([(Run(what),)]), RunsLabel([_key(key)], mono=True)]
        edit = {"forget_keys": (key.fingerprint,)}
        self._sign(_FORGET, body, what, lambda api, passphrase: api.host_edit(row.name, edit, passphrase))

    @Slot(object)
    def ask_remove(self, row: HostRow) -> None:
        """Show the window that removes an entry."""
        what = texts.HOST_REMOVE_WHAT.format(host=row.title)
        body = [RunsLabel([(Run(what),)]), RunsLabel(row.way, mono=True)]
        self._sign(_REMOVE, body, what, lambda api, passphrase: api.host_remove(row.name, passphrase))

    @Slot()
    def choose_file(self) -> None:
        """Let the person choose a file of OpenSSH, and show the window that takes it in."""
        chosen, _ = QFileDialog.getOpenFileName(self, texts.HOST_IMPORT, str(Path.home() / ".ssh"))
        if chosen:
            self.ask_import(Path(chosen))

    def ask_import(self, file: Path) -> None:
        """Show the window that takes a file in; a sentence where it cannot be read."""
        try:
            with open(file, "rb") as opened:
                text = opened.read(TEXT_CHARS + 1).decode("utf-8", "replace")
        except OSError:
            text = ""
        if not 0 < len(text) <= TEXT_CHARS:
            self._say(texts.HOST_IMPORT_UNREAD.format(file=file.name, kib=TEXT_CHARS // 1024))
            return
        what = texts.HOST_IMPORT_FILE.format(file=file.name)
        body = [RunsLabel([(Run(what),)]), Label(texts.HOST_IMPORT_WHAT, token="ink2", wrap=True)]
        signing = self._sign(
            _IMPORT,
            body,
            what,
            lambda api, passphrase: api.host_import(text, credential=None, user=None, passphrase=passphrase),
        )
        signing.answered.connect(lambda found: self._say(hosts_view.imported(found)))

    def _sign(self, words: SignWords, body: Sequence[QWidget], claim: str, call: Call) -> SignedCall:
        self._say("")
        signing = self.signing = SignedCall(self._bridge, words, body, claim, call, self.window())
        signing.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        signing.answered.connect(self.changed)
        signing.finished.connect(self._signed)
        signing.open()
        return signing

    def _say(self, sentence: str) -> None:
        self._said.setText(sentence)
        self._said.setVisible(bool(sentence))

    @Slot()
    def _signed(self) -> None:
        self.signing = None

    def _lay_out(self) -> None:
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(24, 20, 24, 20)
        column.setSpacing(8)
        head = QHBoxLayout()
        head.addWidget(Label(texts.NAV_HOSTS, TextStyle.TITLE), 1)
        head.addWidget(self._import)
        column.addLayout(head)
        column.addWidget(self._count)
        column.addWidget(self._said)
        self._empty = Label(token="ink2", wrap=True)
        column.addWidget(self._empty)
        self._list = QVBoxLayout()
        self._list.setSpacing(12)
        column.addLayout(self._list)
        column.addStretch(1)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(body)


class HostPanel(Panel):
    """One entry."""

    forget_asked = Signal(object, object)
    """The row and one of its keys."""
    remove_asked = Signal(object)
    """The row."""

    def __init__(self, row: HostRow, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 14, 16, 14)
        column.setSpacing(8)
        self.buttons: list[QPushButton] = []
        """From top to bottom."""
        column.addWidget(Heading((Run(row.title, Mark.STRONG),), icon="host", note=row.policy))
        column.addWidget(RunsLabel(row.way, mono=True))
        for key in row.keys:
            line = QHBoxLayout()
            line.setSpacing(12)
            line.addWidget(RunsLabel([_key(key)], mono=True), 1, Qt.AlignmentFlag.AlignVCenter)
            line.addWidget(
                self._button(texts.HOST_FORGET_ASK, key.fingerprint, partial(self.forget_asked.emit, row, key))
            )
            column.addLayout(line)
        foot = QHBoxLayout()
        foot.addWidget(Label(row.note, TextStyle.CAPTION, "ink2", wrap=True), 1)
        foot.addWidget(self._button(texts.HOST_REMOVE_ASK, row.title, partial(self.remove_asked.emit, row)))
        column.addLayout(foot)

    def _button(self, text: str, of: str, then: Callable[[], object]) -> QPushButton:
        button = QPushButton(text)
        button.setProperty("kind", theme.SMALL)
        button.setAutoDefault(False)
        button.setAccessibleDescription(of)
        button.clicked.connect(lambda _checked=False: then())
        self.buttons.append(button)
        return button


def _key(key: KeyRow) -> tuple[Run, ...]:
    return (Run(f"{key.algorithm}  ", Mark.SECOND), Run(key.fingerprint))
