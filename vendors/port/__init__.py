"""The port every vendor stands behind: types, ids, secrets, errors, manifest. Vendors import this and nothing of each other."""
