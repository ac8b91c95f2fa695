"""Contracts: what is promised of a remote action, read once by a person and written down."""
