"""A worker process that asks one installation's vendor as fast as the shared limit lets it; run as a program.

    python -m tests.support.limit_child TENANT INSTALLATION DEVICE SECONDS

prints one line of JSON: how many calls were made, and how often the limit said to wait.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(tenant_id: str, installation_id: str, device_id: str, seconds: str) -> None:
    """Calls until the time is over."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lockservice.settings.embedded")
    import django

    django.setup()
    from devices import adapters, selectors
    from lockservice.core.tenancy import tenant
    from vendors.port.errors import VendorUnreachable

    with tenant(tenant_id):
        port = adapters.port_of(tenant_id, selectors.installation(tenant_id, installation_id))
        door = selectors.devices(tenant_id, "", [device_id])[device_id].door()
    made = waits = 0
    print("ready", flush=True)  # noqa: T201 - the test waits for it
    ends = time.monotonic() + float(seconds)
    while time.monotonic() < ends:
        try:
            port.health_check(door)
            made += 1
        except VendorUnreachable as refused:
            if not refused.throttled:
                raise
            waits += 1
            time.sleep(min(0.05, refused.retry_after_s or 0.05))
    print(json.dumps({"made": made, "waits": waits}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
