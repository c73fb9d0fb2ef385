"""A simulated house of the long tail: an encoder, cards, stand-alone locks that learn from cards, and a controller."""

from .program import main

__all__ = ["main"]
