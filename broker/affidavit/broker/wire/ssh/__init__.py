"""The SSH wire: one command on one channel, reported as evidence."""
