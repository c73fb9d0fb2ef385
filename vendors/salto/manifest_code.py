"""The vendor's code in data, apart from the manifest so that every part may name it.

One rule: it is written here once.
"""

CODE = "salto"
