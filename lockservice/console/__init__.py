"""The console for people: Django's admin under an own site, read by the desk at night and by platform support.

One rule: nothing here writes a key, an event or a saga; buttons call `sagas.acts`, pages read inside one tenant's block.
"""
