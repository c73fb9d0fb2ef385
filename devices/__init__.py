"""Installations and lock devices, and the one place adapters are built."""
