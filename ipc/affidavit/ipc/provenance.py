"""Which process a session belongs to: a walk up from the process that connected, decided over plain values.

Interface, section 3, Session. Our own programs, shells and launchers only carry somebody's call, so the walk goes
through them to the first other program: that is the agent. It stops before whatever starts programs for a person or
for the system; then the session is the topmost process below it.

**What is a fact and what a claim.** Uid, pid, start time, parent and program file come from the kernel. A command line
does not: a process can rewrite its own. A command line is used for three things only: which applet of a multi-call
binary runs, which script an interpreter runs, and whether one of ours runs under our interpreter. A process of the
same user that lies about these, or carries the name of a shell, moves itself *up*, to the session of one of its own
ancestors, or cuts itself off *below* a boundary. It never gets the session of a process that did not start it. So a
shared terminal is as far as a lie reaches, and an agent that runs under another agent's shell already had that: the
session separates agents that behave, it is no wall between programs of one user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from os.path import basename

from affidavit.broker.session import Process, Provenance

MAX_CHAIN = 32
"""Processes looked at on the way up. A longer chain ends there, as if its next parent could not be read."""

FileId = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One process at one moment. `script` is the file that an interpreter was told to run, where that is one of ours
    to find out; `readable` is False where the kernel hides its program file from us."""

    process: Process
    parent: int
    uid: int
    argv: tuple[str, ...] = ()
    readable: bool = True
    script: FileId | None = None

    @property
    def file(self) -> FileId | None:
        device, inode = self.process.device, self.process.inode
        return None if device is None or inode is None else (device, inode)


@dataclass(frozen=True, slots=True)
class Ours:
    """How our own programs are known: by file. `programs` are ours by themselves (a packaged build); `interpreters`
    are where they run one of `scripts`, or `-m` with a module of ours."""

    programs: frozenset[FileId] = frozenset()
    interpreters: frozenset[FileId] = frozenset()
    scripts: frozenset[FileId] = frozenset()


class Role(StrEnum):
    OURS = "ours"
    SHELL = "shell"
    LAUNCHER = "launcher"
    BOUNDARY = "boundary"
    PROGRAM = "program"


TRANSPARENT = frozenset({Role.OURS, Role.SHELL, Role.LAUNCHER})

_WORDS = {
    Role.SHELL: "sh bash rbash dash ash zsh fish ksh mksh",
    Role.LAUNCHER: "env timeout nice nohup xargs make gmake uv uvx npm npx",
    Role.BOUNDARY: """
        alacritty blackbox contour cool-retro-term deepin-terminal foot footclient ghostty gnome-terminal
        gnome-terminal-server guake kgx kitty konsole lxterminal mate-terminal mlterm ptyxis ptyxis-agent qterminal rio
        roxterm rxvt sakura st terminator terminology tilda tilix urxvt urxvtd warp warp-terminal wezterm wezterm-gui
        xfce4-terminal xterm yakuake zutty
        abduco byobu dtach dvtm mosh-server screen tmux zellij
        dropbear sshd sshd-auth sshd-session tinysshd
        agetty doas getty login mingetty pkexec run0 runuser su sudo
        cinnamon-session cinnamon-session-binary gdm-session-worker gdm-wayland-session gdm-x-session gnome-session
        gnome-session-binary gnome-session-service gnome-shell greetd ksmserver kwin_wayland kwin_x11 lightdm
        lxqt-session lxsession mate-session plasma_session plasmashell sddm sddm-helper startplasma-wayland
        startplasma-x11 startx xfce4-session xfce4-panel xinit Hyprland awesome i3 labwc openbox river sway weston
        atd catatonit conmon containerd-shim containerd-shim-runc-v2 cron crond dbus-broker-launch
        dbus-daemon dinit docker-init dockerd dumb-init init launchd runsv runsvdir s6-supervise s6-svscan
        supervise-daemon supervisord systemd tini
    """,
}
ROLES = {name: role for role, words in _WORDS.items() for name in words.split()}

_MULTI_CALL = frozenset({"busybox", "toybox", "coreutils"})
_INTERPRETERS = re.compile(r"python|node|nodejs|perl|ruby|bun|deno")
_VERSION = re.compile(r"-?\d[\d.]*$")
_PACKAGE_MANAGER = re.compile(r"(npm|npx)(-cli)?(\.c?js)?")
_OUR_MODULE = re.compile(r"affidavit(\.\w+)*")


def role(of: Seen, ours: Ours) -> Role:
    """What this process is on the way up. Process 1 and the kernel's own are always a boundary."""
    if of.process.pid <= 2:
        return Role.BOUNDARY
    if of.file is not None and (of.file in ours.programs or _runs_ours(of, ours)):
        return Role.OURS
    return ROLES.get(_name(of), Role.PROGRAM)


def _runs_ours(of: Seen, ours: Ours) -> bool:
    if of.file not in ours.interpreters:
        return False
    if of.script is not None:
        return of.script in ours.scripts
    what = python_runs(of.argv)
    return what is not None and what.module and _OUR_MODULE.fullmatch(what.name) is not None


def _name(of: Seen) -> str:
    """The name that `ROLES` knows a process by: of an applet or a script where its file is a host for others."""
    name = of.process.name.removesuffix(" (deleted)")
    plain = _VERSION.sub("", name)
    words = [basename(word).removeprefix("-") for word in of.argv[:2]]
    if plain in _MULTI_CALL and words:
        return words[1] if words[0] == plain and len(words) > 1 else words[0]
    if _INTERPRETERS.fullmatch(plain):
        # npm puts "npm exec ..." in place of its command line.
        for word in [*words[1:], *(of.argv[0].split()[:1] if of.argv else [])]:
            if match := _PACKAGE_MANAGER.fullmatch(word):
                return match[1]
        return words[1] if len(words) > 1 and ROLES.get(words[1]) is Role.BOUNDARY else plain
    return plain if plain in ROLES else name


@dataclass(frozen=True, slots=True)
class PythonRuns:
    """What a Python command line runs: a script by its path, or a module by its name."""

    name: str
    module: bool


def python_runs(argv: tuple[str, ...]) -> PythonRuns | None:
    """Read a Python command line; None where it runs neither script nor module."""
    words = iter(argv[1:])
    for word in words:
        if word == "--" or not word.startswith("-"):
            name = next(words, "") if word == "--" else word
            return PythonRuns(name, module=False) if name else None
        for at, letter in enumerate(word[1:], start=1):
            if letter in "cm":
                name = word[at + 1 :] or next(words, "")
                return PythonRuns(name, module=True) if letter == "m" and name else None
            if letter in "WX":  # these take the rest of the word or the next one
                if at + 1 == len(word):
                    next(words, None)
                break
    return None


def walk(tree: Mapping[int, Seen], peer: int, *, uid: int, ours: Ours) -> Provenance:
    """The provenance of the process `peer`, which is in the tree and belongs to `uid`.

    `chain` is what started the session's process, nearest first, up to the first boundary and with it, or to the first
    process that is another user's or that we may not read.
    """
    line = lineage(tree, peer, uid=uid, ours=ours)
    at = 0
    while at + 1 < len(line) and role(line[at], ours) in TRANSPARENT and not closed(line[at + 1], uid=uid, ours=ours):
        at += 1
    chain = tuple(seen.process for seen in line[at + 1 :])
    return Provenance(uid=uid, process=line[at].process, peer=line[0].process, chain=chain)


def lineage(tree: Mapping[int, Seen], peer: int, *, uid: int, ours: Ours) -> list[Seen]:
    """The peer and what is above it, nearest first, through the first process that is closed to the walk."""
    line = [tree[peer]]
    while len(line) < MAX_CHAIN and (above := _above(tree, line[-1])) is not None and above not in line:
        line.append(above)
        if closed(above, uid=uid, ours=ours):
            break
    return line


def closed(of: Seen, *, uid: int, ours: Ours) -> bool:
    """Whether the walk stops below this process."""
    return not of.readable or of.uid != uid or role(of, ours) is Role.BOUNDARY


def _above(tree: Mapping[int, Seen], of: Seen) -> Seen | None:
    """The parent, where the tree has it. A parent is no younger than its child: what is, is another process."""
    above = tree.get(of.parent)
    if above is None or above.process.started > of.process.started:
        return None
    return above
