"""Opens Django's own tables, which hold no tenant data, to the working logins.

The one rule: what is opened here is listed by name; a new framework table stays closed until somebody
decides about it. The console signs people in outside of any tenant, so the logins themselves need
these rights; inside a tenant's block the application role does.
"""

from django.db import migrations

from lockservice.core.rls import open_shared_table

LOGINS_AND_APP = "lock_web, lock_worker, lock_app"

WRITTEN = [
    "auth_user",
    "auth_user_groups",
    "auth_user_user_permissions",
    "auth_group",
    "auth_group_permissions",
    "django_session",
    "django_admin_log",
]
READ = ["auth_permission", "django_content_type", "django_migrations"]


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("sessions", "0001_initial"),
    ]

    operations = [
        *(open_shared_table(table, readers=LOGINS_AND_APP, writers=LOGINS_AND_APP) for table in WRITTEN),
        *(open_shared_table(table, readers=LOGINS_AND_APP) for table in READ),
    ]
