"""Compares our books with what the vendors hold, door by door; finds, tells, and repairs by rule."""
