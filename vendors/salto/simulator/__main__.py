"""Runs the simulator: `python -m vendors.salto.simulator`."""

import sys

from .program import main

sys.exit(main())
