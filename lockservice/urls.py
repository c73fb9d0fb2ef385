"""Every address of the service, gathered from the rooms that serve them.

The one rule: views live with what they show; here stand only where they begin, and who tells of errors outside of them.
"""

from django.contrib import admin
from django.urls import include, path

from lockservice.console.apps import load_pages
from lockservice.console.front_door import front_door

load_pages()

urlpatterns = [
    path("", front_door),
    path("console/", admin.site.urls),
    path("", include("lockservice.api.router", namespace="lock")),
]

handler400 = "lockservice.core.http.plain_bad_request"
handler403 = "lockservice.core.http.plain_forbidden"
handler404 = "lockservice.core.http.plain_not_found"
handler500 = "lockservice.core.http.plain_server_error"
