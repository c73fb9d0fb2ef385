"""Gathers the core's models where Django looks for them."""

from lockservice.core.clock import HotelClock
from lockservice.core.ended_access import EndedAccess
from lockservice.core.figures import FigureSheet
from lockservice.core.heartbeat import Heartbeat
from lockservice.core.idempotency import IdempotencyRecord
from lockservice.core.places import Property, Room, Tenant

__all__ = ["EndedAccess", "FigureSheet", "Heartbeat", "HotelClock", "IdempotencyRecord", "Property", "Room", "Tenant"]
