"""The command line. Each command is a module of its own and is imported only when it is called.

`affidavit status` has to cost little more than a bare Python start (performance, P14), so nothing here imports
asyncio, httpx, paramiko, keyring, cryptography or Qt.
"""

from affidavit.ipc.cli.main import main

__all__ = ["main"]
