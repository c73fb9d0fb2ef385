"""Settings: `base` for all, `embedded` for a laptop and tests, `production` from the environment.

The one rule: importing settings connects to nothing and starts nothing.
"""
