"""`python -m affidavit.gui`."""

import sys

from affidavit.gui.app import main

sys.exit(main())
