"""`python -m vendors.ttlock.simulator`."""

import sys

from .program import main

sys.exit(main())
