-- Roles of the service, for one PostgreSQL 18 cluster. Run as a superuser; safe to repeat.
-- Passwords are not set here: embedded mode generates them, production brings its own
-- (ALTER ROLE lock_web PASSWORD ... with an already hashed value).
--
--   lock_owner   logs in, owns database and schema, runs migrations; row security binds it too,
--                since every tenant table has it forced
--   lock_app     no login; reads and writes tenant data under row-level security
--   lock_queue   no login; reads and writes the queue tables (sagas, lanes, outbox, inbox, dead
--                letters) across tenants
--   lock_web     logs in for web processes; may become lock_app only
--   lock_worker  logs in for workers and pumps; may become lock_app or lock_queue
--
-- The two logins inherit nothing: code that forgot to enter a tenant is refused, not served.

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['lock_owner', 'lock_app', 'lock_queue', 'lock_web', 'lock_worker'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I', name);
        END IF;
    END LOOP;
END
$$;

ALTER ROLE lock_owner  WITH LOGIN   INHERIT   NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE lock_app    WITH NOLOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE lock_queue  WITH NOLOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE lock_web    WITH LOGIN   NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE lock_worker WITH LOGIN   NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;

GRANT lock_app   TO lock_web    WITH ADMIN FALSE, INHERIT FALSE, SET TRUE;
GRANT lock_app   TO lock_worker WITH ADMIN FALSE, INHERIT FALSE, SET TRUE;
GRANT lock_queue TO lock_worker WITH ADMIN FALSE, INHERIT FALSE, SET TRUE;

-- A web request waits for nobody; a worker may wait a little; neither holds a transaction open: a process that was frozen or
-- cut off inside one would keep its rows locked, and others shall go on with them within ten seconds.
-- (A role taken with SET ROLE keeps the settings of the login.)
ALTER ROLE lock_web    SET statement_timeout = '10s';
ALTER ROLE lock_web    SET lock_timeout = '3s';
ALTER ROLE lock_web    SET idle_in_transaction_session_timeout = '5s';
ALTER ROLE lock_worker SET statement_timeout = '60s';
ALTER ROLE lock_worker SET lock_timeout = '10s';
ALTER ROLE lock_worker SET idle_in_transaction_session_timeout = '5s';
-- A migration that cannot get its lock gives up instead of queueing everybody behind it.
ALTER ROLE lock_owner  SET lock_timeout = '5s';
