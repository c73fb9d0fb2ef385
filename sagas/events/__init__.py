"""Events as plain values: envelope, registry, schemas and typed inbound events.

One rule: knows no framework and does no I/O except reading its own schema files.
"""
