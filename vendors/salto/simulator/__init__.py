"""A simulated SALTO property: the server, its cloud and connector, its PMS port, and doors that learn only from cards."""

from .program import main

__all__ = ["main"]
