"""Figures of this web process for Prometheus.

The one rule: labels come from closed sets (route patterns, methods, statuses); no id, no tenant, no path as it was sent.
Depths of queues are figures of the workers: the web login cannot see the queues of all tenants.
"""

from __future__ import annotations

import os

from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from prometheus_client import REGISTRY as OF_THIS_PROCESS

_SERVED = Counter("lock_http_requests_total", "Requests served", ["method", "route", "status"])
_TOOK = Histogram("lock_http_request_seconds", "Time to serve a request", ["route"], buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10))
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def count(method: str, route: str, status: int, took_s: float) -> None:
    """Counts one request."""
    _SERVED.labels(method if method in _METHODS else "other", route, str(status)).inc()
    _TOOK.labels(route).observe(took_s)


def expose(request: HttpRequest) -> HttpResponse:
    """Answers `/metrics`, for all processes of this server where PROMETHEUS_MULTIPROC_DIR is set."""
    registry = OF_THIS_PROCESS
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
