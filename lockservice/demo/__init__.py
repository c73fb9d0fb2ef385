"""The demo: a tenant with two hotels on simulated locks. Embedded mode only; no hotel's service needs it."""
