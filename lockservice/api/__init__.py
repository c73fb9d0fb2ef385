"""The REST surface: thin routes over the acts, and the doors for push deliveries, probes and the demo.

The one rule: a route reads its input, asks for one act or one selection, and renders it; it decides nothing about keys.
"""
