"""Generic Wiegand and RFID locks: an encoder at the property's desk, reached through the relay."""
