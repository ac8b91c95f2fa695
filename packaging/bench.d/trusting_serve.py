"""`affidavit serve` whose HTTP wire trusts one certificate more: that of the benchmark's target.

python trusting_serve.py CERTIFICATE serve --passphrase-fd N
"""

from __future__ import annotations

import sys

from affidavit.broker.broker import Broker
from affidavit.broker.home import Places
from affidavit.broker.wire.exchange import DirectWire
from affidavit.broker.wire.tls import build_context
from affidavit.ipc.serve import serve


async def open_broker(places: Places) -> Broker:
    return await Broker.open(places, wire=DirectWire(tls=build_context(sys.argv[1])))


if __name__ == "__main__":
    raise SystemExit(serve(passphrase_fd=int(sys.argv[4]), open_broker=open_broker))
