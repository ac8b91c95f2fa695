"""Contracts: what is promised of a remote action, read once by a person and written down.

A file is text, `parse` makes a `Contract` of it, a `ContractSet` finds the one that a request falls under, `answers`
says in words what it promises, `plant_key` and `plant_ids` put into a request what it has a place for.
"""

from affidavit.broker.contract.answers import answers, explain, told
from affidavit.broker.contract.model import Contract, HttpMatch, SshMatch, Standing
from affidavit.broker.contract.parse import ContractRefused, Problem, parse
from affidavit.broker.contract.planting import Planted, carries_key, check_key, make_key, plant_ids, plant_key
from affidavit.broker.contract.select import DEFAULT_READ, DEFAULT_WRITE, Conflict, ContractSet

__all__ = [
    "DEFAULT_READ",
    "DEFAULT_WRITE",
    "Conflict",
    "Contract",
    "ContractRefused",
    "ContractSet",
    "HttpMatch",
    "Planted",
    "Problem",
    "SshMatch",
    "Standing",
    "answers",
    "carries_key",
    "check_key",
    "explain",
    "make_key",
    "parse",
    "plant_ids",
    "plant_key",
    "told",
]
