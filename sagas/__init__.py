"""Tells the story of every key: events at the bottom, models above them, flows on top."""
