"""The front desk's side: what a desk and the service say to each other, and a virtual desk that says it."""
