"""`python -m affidavit.ipc.cli` is `affidavit`."""

from affidavit.ipc.cli.main import main

raise SystemExit(main())
