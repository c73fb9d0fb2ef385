"""A Vostio environment and a Visionline server with their locks, cards and phones, as a program of its own.

One rule: it imports nothing of the adapter, and the adapter nothing of it; they meet on the wire. See the README beside this.
"""

from .program import main

__all__ = ["main"]
