"""Every icon can be found by name, is a plain drawing, and nothing outside the folder can be reached."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from affidavit.resources import icons

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {SVG + tag for tag in ("svg", "g", "path", "circle", "rect", "title")}
EVERY = [(group, name) for group in icons.GROUPS for name in icons.names(group)]


@pytest.mark.parametrize(("group", "name"), EVERY)
def test_an_icon_is_a_drawing_without_scripts_or_references(group: str, name: str) -> None:
    root = ElementTree.fromstring(icons.svg(group, name))
    assert root.tag == SVG + "svg"
    assert {element.tag for element in root.iter()} <= DRAWN
    assert not any("href" in attribute or attribute.startswith("on") for e in root.iter() for attribute in e.attrib)


@pytest.mark.parametrize(("group", "name"), [(g, n) for g, n in EVERY if g in ("outcome", "ui")])
def test_a_mask_is_black_on_the_16_grid(group: str, name: str) -> None:
    root = ElementTree.fromstring(icons.svg(group, name))
    assert root.get("viewBox") == "0 0 16 16"
    painted = {element.get(key) for element in root.iter() for key in ("fill", "stroke")}
    assert painted <= {None, "none", "#000"}


def test_every_outcome_has_its_silhouette() -> None:
    assert icons.names("outcome") == ("committed", "not_attempted", "rejected", "unknown")
    assert len({icons.svg("outcome", name) for name in icons.names("outcome")}) == 4


def test_every_tray_state_is_drawn_for_both_panels() -> None:
    states = {name.rsplit("-on-", 1)[0] for name in icons.names("tray")}
    assert {f"{state}-on-{panel}" for state in states for panel in ("light", "dark")} == set(icons.names("tray"))


@pytest.mark.parametrize(("group", "name"), [("ui", "no-such"), ("ui", "../version"), ("..", "version"), ("ui", "")])
def test_what_is_not_an_icon_is_refused(group: str, name: str) -> None:
    with pytest.raises(icons.IconUnknown):
        icons.svg(group, name)
