"""Replays real bookings: a public file becomes reservation events, in time order, on a clock that is moved from step to step."""
