"""The wire between a property's desk and the relay's gateway, used by both ends."""
