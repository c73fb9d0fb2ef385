"""The service's outer package: settings, edge, processes.

Its door stays empty: the embedded servers are started before any framework is configured.
"""
