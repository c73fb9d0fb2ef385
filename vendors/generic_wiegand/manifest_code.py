"""The vendor's code, where the folder's own modules need it.

One rule: it is written down here and nowhere else in the product.
"""

CODE = "generic-wiegand"
