"""What a frame is, for both ends of a stream (interface, Streams): a channel (one byte), a length (four, the highest
first), and so many bytes. It loads nothing, since a short command loads it."""

from __future__ import annotations

import struct

STDIN, STDOUT, STDERR, END = 0, 1, 2, 255
"""Channels; the first three have the numbers of their descriptors."""
FRAME_BYTES = 64 * 1024
"""At most, without the head."""
HEAD = struct.Struct("!BI")
