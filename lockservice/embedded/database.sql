-- What a database of the service needs before its first migration. Run as a superuser, connected to
-- that database, which was made with CREATE DATABASE ... OWNER lock_owner; safe to repeat.
-- Rights on tables are given by the migrations that make them.

CREATE EXTENSION IF NOT EXISTS btree_gist;

DO $$
BEGIN
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO lock_web, lock_worker', current_database());
END
$$;

ALTER SCHEMA public OWNER TO lock_owner;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO lock_app, lock_queue, lock_web, lock_worker;
