"""The sockets, the method table, the client and the command line."""
