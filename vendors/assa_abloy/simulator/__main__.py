"""`python -m vendors.assa_abloy.simulator`."""

import sys

from .program import main

sys.exit(main())
