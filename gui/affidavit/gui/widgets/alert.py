"""What assistive tools are told: that a window is an alert, and the few sentences that are read aloud."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAccessibleEvent, QAccessibleInterface
from PySide6.QtWidgets import QAccessibleWidget, QWidget


class AlertWindow(QWidget):
    """A window with the role of an alert; Qt has no way to say so but a factory for its accessible interface."""

    def raise_alert(self) -> None:
        """Tell assistive tools that this window asks for attention now."""
        QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.Alert))


def announce(widget: QWidget, sentence: str) -> None:
    """Have a sentence read aloud once."""
    event = QAccessibleAnnouncementEvent(widget, sentence)
    event.setPoliteness(QAccessible.AnnouncementPoliteness.Assertive)
    QAccessible.updateAccessibility(event)


def _alert_interface(class_name: str, made_for: QObject) -> QAccessibleInterface | None:
    """Asked once for each class in an object's ancestry, by name; None leaves it to Qt."""
    if isinstance(made_for, AlertWindow) and class_name == AlertWindow.__name__:
        return QAccessibleWidget(made_for, QAccessible.Role.AlertMessage, made_for.accessibleName())
    return None


QAccessible.installFactory(_alert_interface)
