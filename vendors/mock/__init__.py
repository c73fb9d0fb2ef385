"""The mock vendor: an honest lock vendor with failures on request."""
