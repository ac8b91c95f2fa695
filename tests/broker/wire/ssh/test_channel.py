"""What a channel keeps of what comes on it, message by message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.wire.ssh.channel import EXEC, PACKET, WINDOW, CommandChannel, Kind, Refusal
from affidavit.broker.wire.ssh.fields import Fields, string, uint32
from affidavit.broker.wire.ssh.port import Stream


def opened(*, window: int = 1000, packet: int = 500) -> CommandChannel:
    channel = CommandChannel()
    take(channel, Kind.OPEN_CONFIRMATION, uint32(7) + uint32(window) + uint32(packet))
    return channel


def running() -> CommandChannel:
    channel = opened()
    channel.ask(EXEC)
    take(channel, Kind.SUCCESS)
    return channel


def take(channel: CommandChannel, kind: Kind, fields: bytes = b"") -> None:
    channel.take(kind, Fields(fields))


def test_opened() -> None:
    channel = opened()
    assert (channel.peer, channel.window, channel.packet) == (7, 1000, 500)
    assert opened(packet=2**32 - 1).packet == PACKET


def test_refused() -> None:
    channel = CommandChannel()
    assert not channel.answered
    take(channel, Kind.OPEN_FAILURE, uint32(4) + string(b"no room") + string(b""))
    assert channel.refusal == Refusal(4, "no room")
    assert channel.answered


@pytest.mark.parametrize("kind", [Kind.DATA, Kind.EOF, Kind.CLOSE, Kind.SUCCESS])
def test_nothing_comes_on_a_channel_that_is_not_open(kind: Kind) -> None:
    channel = CommandChannel()
    take(channel, kind, string(b"x"))
    assert channel.violation == f"an unasked {kind.name} message"


def test_replies_come_in_the_order_of_the_questions() -> None:
    channel = opened()
    for what in ("=A", "=B", EXEC):
        channel.ask(what)
    take(channel, Kind.SUCCESS)
    take(channel, Kind.FAILURE)
    assert channel.refused_variable == "B"
    assert not channel.accepted
    take(channel, Kind.SUCCESS)
    assert channel.accepted
    assert not channel.awaits_reply
    assert channel.violation is None


def test_output_is_taken_once_and_counted() -> None:
    channel = running()
    take(channel, Kind.DATA, string(b"one "))
    take(channel, Kind.EXTENDED_DATA, uint32(1) + string(b"err"))
    take(channel, Kind.DATA, string(b"two"))
    assert {stream: bytes(data) for stream, data in channel.output()} == {
        Stream.STDOUT: b"one two",
        Stream.STDERR: b"err",
    }
    assert channel.output() == []
    assert channel.bytes == {Stream.STDOUT: 7, Stream.STDERR: 3}


def test_the_window_is_both_streams_together_and_grows_by_what_is_granted() -> None:
    channel = running()
    take(channel, Kind.DATA, string(bytes(WINDOW - 1)))
    take(channel, Kind.EXTENDED_DATA, uint32(1) + string(b"x"))
    assert channel.violation is None
    channel.grant(5)
    take(channel, Kind.DATA, string(b"12345"))
    assert channel.violation is None
    take(channel, Kind.DATA, string(b"!"))
    assert channel.violation == "more output than its window allows"
    assert sum(channel.bytes.values()) == WINDOW + 5


def test_what_may_be_sent() -> None:
    channel = running()
    channel.spend(400)
    assert channel.window == 600
    take(channel, Kind.WINDOW_ADJUST, uint32(50))
    assert channel.window == 650


def test_requests_that_want_a_reply_are_counted() -> None:
    channel = running()
    take(channel, Kind.REQUEST, string(b"keepalive@openssh.com") + b"\1")
    take(channel, Kind.REQUEST, string(b"keepalive@openssh.com") + b"\0")
    assert channel.take_replies_due() == 1
    assert channel.take_replies_due() == 0


def test_openssh_says_when_input_is_not_read_any_more() -> None:
    channel = running()
    take(channel, Kind.REQUEST, string(b"eow@openssh.com") + b"\0")
    assert channel.deaf
    assert channel.violation is None


def test_after_close_nothing_is_looked_at() -> None:
    channel = running()
    take(channel, Kind.CLOSE)
    take(channel, Kind.DATA, string(b"late"))
    take(channel, Kind.REQUEST, string(b"exit-status") + b"\0" + uint32(0))
    assert channel.closed
    assert (channel.violation, channel.exit_status, channel.output()) == (None, None, [])


def test_a_hostile_signal_name_is_cleaned() -> None:
    channel = running()
    name = "SÉG\x1b".encode() + b"x" * 200
    take(channel, Kind.REQUEST, string(b"exit-signal") + b"\0" + string(name) + b"\0" + string(b"") + string(b""))
    assert channel.exit_signal is not None
    assert channel.exit_signal.name == ("S?G?" + "x" * 57) + "..."


MESSAGES = st.sampled_from(list(Kind)).flatmap(
    lambda kind: st.tuples(
        st.just(kind),
        st.one_of(
            st.binary(max_size=20),
            st.just(string(b"some output")),
            st.just(uint32(1) + string(b"an error")),
            st.just(string(b"exit-status") + b"\0" + uint32(3)),
            st.just(string(b"exit-signal") + b"\0" + string(b"KILL") + b"\0" + string(b"") + string(b"")),
        ),
    )
)


@given(st.booleans(), st.lists(MESSAGES, max_size=12))
def test_no_order_of_messages_breaks_it(asked: bool, messages: list[tuple[Kind, bytes]]) -> None:
    """Total over what a peer may send; a result without an accepted command is never kept, nor a second one."""
    channel = opened()
    if asked:
        channel.ask(EXEC)
    first = None
    for kind, fields in messages:
        take(channel, kind, fields)
        result = (channel.exit_status, channel.exit_signal)
        if result != (None, None):
            first = first or result
            assert channel.accepted
            assert result == first
        if any(channel.bytes.values()):
            assert channel.accepted
        assert not (channel.accepted and channel.refused)
        assert not (channel.exit_status is not None and channel.exit_signal is not None)
