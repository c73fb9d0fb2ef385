"""The floor of the cloud service: tenancy, places, clock, sealing, wake-ups, HTTP conventions. Knows no business."""
