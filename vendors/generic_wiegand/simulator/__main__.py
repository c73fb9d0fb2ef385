"""Runs the simulator: `python -m vendors.generic_wiegand.simulator`."""

import sys

from .program import main

sys.exit(main())
