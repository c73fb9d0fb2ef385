"""Where Django looks for the console's pages.

One rule: only imports stand here; each page registers itself.
"""

from lockservice.console.pages import bookings, break_glass, credentials, devices, findings, messages, policies, record, sagas

__all__ = ["bookings", "break_glass", "credentials", "devices", "findings", "messages", "policies", "record", "sagas"]
