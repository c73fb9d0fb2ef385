"""The ASGI entry for web servers: `lockservice.asgi:application`.

The one rule: a web process uses the database login that cannot reach the queues.
"""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lockservice.settings.embedded")
os.environ.setdefault("LOCK_DB_LOGIN", "web")

application = get_asgi_application()
