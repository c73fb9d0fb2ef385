#!/bin/bash
# Gives the three logins their passwords and the owner its database, once, when the cluster is made.
# A secret holding a quote is not supported; docker/README.md makes them from letters and digits.
set -euo pipefail

psql --set ON_ERROR_STOP=1 --username postgres --dbname "$POSTGRES_DB" \
    --set owner="$(cat /run/secrets/db_password_owner)" \
    --set web="$(cat /run/secrets/db_password_web)" \
    --set worker="$(cat /run/secrets/db_password_worker)" \
    --set name="$POSTGRES_DB" <<'SQL'
SET log_statement = 'none';
ALTER DATABASE :"name" OWNER TO lock_owner;
ALTER ROLE lock_owner PASSWORD :'owner';
ALTER ROLE lock_web PASSWORD :'web';
ALTER ROLE lock_worker PASSWORD :'worker';
SQL
