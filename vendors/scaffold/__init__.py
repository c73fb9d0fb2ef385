"""Writes the folder of a new vendor: `python -m vendors.scaffold acme-locks "Acme locks" --kinds pin_code,rfid_card`."""
