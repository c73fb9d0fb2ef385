"""A TTLock cloud with its locks, as a program of its own: the vendor gives no sandbox, so this is the only one there is.

One rule: it imports nothing of the adapter, and the adapter nothing of it; they meet on the wire. See the README beside this.
"""

from .program import main

__all__ = ["main"]
