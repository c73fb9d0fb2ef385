"""SALTO XS4 with SVN: over the vendor's cloud, over the property's connector, or over the PMS Industry Standard protocol."""
