"""Wires: the only rooms that talk to targets. Each reports facts; none of them decides a verdict."""
