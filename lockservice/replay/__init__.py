"""Replays real bookings: a public file becomes reservation events, in time order, on a clock moved from step to step."""
