CREATE EXTENSION vector;
CREATE TABLE IF NOT EXISTS logdiag_store (version integer NOT NULL);
INSERT INTO logdiag_store SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM logdiag_store);
CREATE TABLE IF NOT EXISTS logdiag_incidents (
    row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    signature text NOT NULL,
    fingerprint text NOT NULL,
    reason text NOT NULL,
    outcome text NOT NULL,
    node text NOT NULL,
    seen_at text NOT NULL COLLATE "C",
    confirmed boolean NOT NULL,
    changed_at text NOT NULL,
    document text NOT NULL
);
CREATE INDEX IF NOT EXISTS logdiag_incidents_fingerprint ON logdiag_incidents (fingerprint, seen_at);
CREATE INDEX IF NOT EXISTS logdiag_incidents_reason ON logdiag_incidents (reason, seen_at);
CREATE INDEX IF NOT EXISTS logdiag_incidents_node ON logdiag_incidents (node, seen_at);
CREATE INDEX IF NOT EXISTS logdiag_incidents_seen ON logdiag_incidents (seen_at);
CREATE TABLE IF NOT EXISTS logdiag_embedders (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    dimensions integer NOT NULL
);
ALTER TABLE logdiag_incidents ADD COLUMN vector_1 vector(64);
CREATE INDEX logdiag_incidents_vector_1 ON logdiag_incidents USING hnsw (vector_1 vector_cosine_ops);
CREATE INDEX logdiag_incidents_without_vector_1 ON logdiag_incidents (row) WHERE vector_1 IS NULL;
INSERT INTO logdiag_embedders (name, dimensions) VALUES ('letters', 64);
