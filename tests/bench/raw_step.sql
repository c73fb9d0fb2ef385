-- One saga step in plain SQL: plan (claim, intent, event) and record (result, move, event), each its own transaction.
\set saga random(1, 20000)
BEGIN;
SELECT id, lane, credential_id, attempts FROM raw_saga WHERE id = :saga FOR UPDATE;
SELECT id, state, version FROM raw_credential WHERE id = :saga FOR UPDATE;
UPDATE raw_saga SET status = 'running', token = token + 1, attempts = attempts + 1 WHERE id = :saga;
UPDATE raw_credential SET state = 'pending', version = version + 1 WHERE id = :saga;
INSERT INTO raw_outbox (key, sequence, body) VALUES (:saga, nextval('raw_sequence'), repeat('x', 700)::bytea);
COMMIT;
BEGIN;
SELECT id, token FROM raw_saga WHERE id = :saga AND status = 'running' FOR UPDATE;
UPDATE raw_credential SET state = 'active', version = version + 1 WHERE id = :saga;
INSERT INTO raw_outbox (key, sequence, body) VALUES (:saga, nextval('raw_sequence'), repeat('x', 900)::bytea);
UPDATE raw_saga SET status = 'done' WHERE id = :saga;
COMMIT;
