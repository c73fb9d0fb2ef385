"""The WSGI entry for web servers: `lockservice.wsgi:application`.

The one rule: a web process uses the database login that cannot reach the queues.
"""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lockservice.settings.embedded")
os.environ.setdefault("LOCK_DB_LOGIN", "web")

application = get_wsgi_application()
