"""The broker: decides, dispatches, and says only what its records prove.

`terms` holds the vocabulary, `outcome` the state machine and the verdict tables, `advice` the retry decision, `engine`
the life of one action. Nothing here knows of sockets or widgets.
"""
