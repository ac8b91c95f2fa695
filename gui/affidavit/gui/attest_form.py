"""The form in which an operator says what became of an unknown outcome; nothing is sealed from here."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from affidavit.broker.terms import Outcome
from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme
from affidavit.gui.headings import Heading
from affidavit.gui.note_edit import NoteEdit
from affidavit.gui.theme import TextStyle
from affidavit.gui.unknown_view import Draft, Subject
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.panel import Panel


class AttestForm(Panel):
    """Outcome, what was checked, reference; Review is armed once nothing is missing and names the step until then."""

    review_asked = Signal(object)
    """A `Draft` from which nothing is missing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self._sealed = False
        self._subjects: tuple[Subject, ...] = ()
        self._for = QComboBox()
        self._for.setAccessibleDescription(texts.ATTEST_FOR)
        self._for_label = Label(texts.ATTEST_FOR, token="ink2")
        self._committed = QRadioButton(texts.ATTEST_COMMITTED)
        self._rejected = QRadioButton(texts.ATTEST_REJECTED)
        self._outcomes = QButtonGroup(self)
        for button in (self._committed, self._rejected):
            self._outcomes.addButton(button)
            button.setAccessibleDescription(texts.ATTEST_OUTCOME)
        self._note = NoteEdit()
        self._note.setPlaceholderText(texts.ATTEST_CHECKED_HINT)
        self._note.setAccessibleName(texts.ATTEST_CHECKED)
        self._reference = QLineEdit()
        self._reference.setPlaceholderText(texts.ATTEST_REFERENCE_HINT)
        self._reference.setAccessibleName(texts.ATTEST_REFERENCE)
        self._missing = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        self._review = QPushButton(texts.ATTEST_REVIEW)
        self._review.setProperty("kind", theme.PRIMARY)
        self._lay_out()
        self._outcomes.buttonToggled.connect(self._changed)
        self._note.textChanged.connect(self._changed)
        self._reference.textChanged.connect(self._changed)
        self._review.clicked.connect(self._ask_review)
        self._changed()

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(8)
        column.addWidget(Heading(texts.ATTEST, icon="attest"))
        column.addWidget(Label(texts.ATTEST_WHEN, TextStyle.CAPTION, "ink2", wrap=True))
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(1, 1)
        choices = QHBoxLayout()
        choices.setSpacing(16)
        choices.addWidget(self._committed)
        choices.addWidget(self._rejected)
        choices.addStretch(1)
        grid.addWidget(self._for_label, 0, 0)
        grid.addWidget(self._for, 0, 1, Qt.AlignmentFlag.AlignLeft)
        grid.addWidget(Label(texts.ATTEST_OUTCOME, token="ink2"), 1, 0)
        grid.addLayout(choices, 1, 1)
        grid.addWidget(Label(texts.ATTEST_CHECKED, token="ink2"), 2, 0, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(self._note, 2, 1)
        grid.addWidget(Label(texts.ATTEST_REFERENCE, token="ink2"), 3, 0)
        grid.addWidget(self._reference, 3, 1)
        grid.setRowStretch(2, 1)
        column.addLayout(grid, 1)
        foot = QHBoxLayout()
        foot.setSpacing(12)
        foot.addWidget(self._missing, 1)
        foot.addWidget(self._review)
        column.addLayout(foot)

    def draft(self) -> Draft:
        """What is filled in now."""
        outcome = None
        if self._committed.isChecked():
            outcome = Outcome.COMMITTED
        elif self._rejected.isChecked():
            outcome = Outcome.REJECTED
        return Draft(outcome, self._note.toPlainText(), self._reference.text(), self._for.currentData())

    def show_draft(self, draft: Draft) -> None:
        """Fill the form with what was written before, or empty it."""
        self._outcomes.setExclusive(False)
        self._committed.setChecked(draft.outcome is Outcome.COMMITTED)
        self._rejected.setChecked(draft.outcome is Outcome.REJECTED)
        self._outcomes.setExclusive(True)
        self._note.setPlainText(draft.note)
        self._reference.setText(draft.reference)
        self._choose(draft.item)
        self._changed()

    def show_subjects(self, subjects: tuple[Subject, ...]) -> None:
        """What the statement may be about; with nothing to choose from, the choice is not there."""
        if subjects != self._subjects:
            chosen = self._for.currentData()
            self._subjects = subjects
            self._for.clear()
            for subject in subjects:
                self._for.addItem(subject.label, subject.item)
            self._choose(chosen)
        for widget in (self._for_label, self._for):
            widget.setVisible(bool(subjects))

    def _choose(self, item: str | None) -> None:
        named = [subject.item for subject in self._subjects]
        self._for.setCurrentIndex(named.index(item) if item in named else min(0, len(named) - 1))

    def set_sealed(self, sealed: bool) -> None:
        """While the vault is locked nothing can be attested: what it was cannot be read."""
        if sealed != self._sealed:
            self._sealed = sealed
            self._changed()

    def _changed(self) -> None:
        missing = texts.ATTEST_LOCKED if self._sealed else self.draft().missing()
        self._missing.setText(missing or "")
        self._review.setEnabled(missing is None)
        self._review.setAccessibleDescription(missing or "")

    def _ask_review(self) -> None:
        draft = self.draft()
        if not self._sealed and draft.missing() is None:
            self.review_asked.emit(draft)
