"""Every address of the service, gathered from the rooms that serve them.

The one rule: only `include` and the two probes stand here; views live with what they show.
"""

from django.contrib import admin
from django.urls import path

urlpatterns = [
    path("console/", admin.site.urls),
]
