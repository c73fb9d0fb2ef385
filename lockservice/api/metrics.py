"""Figures for Prometheus: of this web process, and of the whole service as a worker last counted them (`sagas.figures`).

The one rule: whoever asks without a token gets labels from closed sets only (route patterns, methods, statuses, vendors); no
id, no tenant, no path as it was sent. Single installations are named only to who shows the metrics token.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator

import structlog
from django.conf import settings
from django.db import Error
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from prometheus_client import REGISTRY as OF_THIS_PROCESS
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from lockservice.core import tenancy
from lockservice.core.figure_series import SERIES
from lockservice.core.figures import Sheet, read_sheet
from lockservice.core.http import answer
from lockservice.core.http_problems import Problem

log = structlog.get_logger(__name__)

_SERVED = Counter("lock_http_requests_total", "Requests served", ["method", "route", "status"])
_TOOK = Histogram("lock_http_request_seconds", "Time to serve a request", ["route"], buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10))
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def count(method: str, route: str, status: int, took_s: float) -> None:
    """Counts one request."""
    _SERVED.labels(method if method in _METHODS else "other", route, str(status)).inc()
    _TOOK.labels(route).observe(took_s)


def expose(request: HttpRequest) -> HttpResponse:
    """Answers `/metrics`, for all processes of this server where PROMETHEUS_MULTIPROC_DIR is set.

    One query, whatever was counted. A token that is shown and wrong is 401. While the database is away, the figures of the
    processes are still served.
    """
    shown = request.headers.get("Authorization", "")
    if shown and not _is_right(shown):
        return answer(Problem("UNAUTHENTICATED", "the metrics token is not right"), request)
    registry = OF_THIS_PROCESS
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    counted = CollectorRegistry()
    counted.register(SheetCollector(_sheet(), with_installations=bool(shown)))
    return HttpResponse(generate_latest(registry) + generate_latest(counted), content_type=CONTENT_TYPE_LATEST)


class SheetCollector(Collector):
    """The counted figures as series. `sheet` None: nothing was counted yet, or the database is away."""

    def __init__(self, sheet: Sheet | None, *, with_installations: bool) -> None:
        self._sheet = sheet
        self._with_installations = with_installations

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Gives the series in order, first of all how old the count is."""
        if self._sheet is None:
            return
        yield GaugeMetricFamily("lock_figures_age_seconds", "Age of the count below", value=self._sheet.age_s)
        families = {
            name: GaugeMetricFamily(name, series.help, labels=series.labels)
            for name, series in SERIES.items()
            if self._with_installations or not series.of_installation
        }
        for figure in self._sheet.figures:
            if figure.series in families:
                families[figure.series].add_metric(figure.labels, figure.value)
        yield from families.values()


def _is_right(shown: str) -> bool:
    token: str = settings.METRICS_TOKEN
    return bool(token) and hmac.compare_digest(shown.encode(), f"Bearer {token}".encode())


def _sheet() -> Sheet | None:
    try:
        with tenancy.tenant(tenancy.UNATTRIBUTED):
            return read_sheet()
    except Error:
        log.warning("metrics.no_database")
        return None
