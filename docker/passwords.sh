#!/bin/bash
# Gives the three logins their passwords and the owner its database, once, when the cluster is made.
# A secret holding a quote is not supported; docker/README.md makes them from letters and digits.
set -euo pipefail

# The passwords are read by psql itself: its arguments are read by every process of the host.
psql --set ON_ERROR_STOP=1 --username postgres --dbname "$POSTGRES_DB" --set name="$POSTGRES_DB" <<'SQL'
\set owner `cat /run/secrets/db_password_owner`
\set web `cat /run/secrets/db_password_web`
\set worker `cat /run/secrets/db_password_worker`
SET log_statement = 'none';
ALTER DATABASE :"name" OWNER TO lock_owner;
ALTER ROLE lock_owner PASSWORD :'owner';
ALTER ROLE lock_web PASSWORD :'web';
ALTER ROLE lock_worker PASSWORD :'worker';
SQL
