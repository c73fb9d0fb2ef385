"""Every lock vendor behind one port. Opens no framework; imports nothing on its own."""
