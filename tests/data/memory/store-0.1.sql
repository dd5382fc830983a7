PRAGMA application_id = 1819240297;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE embedders (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    index_file TEXT NOT NULL DEFAULT '',
    indexed_to INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "embedders" VALUES(1,'letters','index-228f76115f4f133d.ldix',3);
CREATE TABLE incidents (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    signature TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    reason TEXT NOT NULL,
    outcome TEXT NOT NULL,
    node TEXT NOT NULL,
    seen_at TEXT NOT NULL,
    confirmed INTEGER NOT NULL,
    changed_at TEXT NOT NULL,
    document TEXT NOT NULL
);
INSERT INTO "incidents" VALUES(1,'i-zdqby6qs','widget <n> jammed in <path>','6deb2ec69976690d','ECCError','worked','node-004','2026-11-01T00:00:00Z',1,'2026-11-23T11:47:44.563Z','{"id": "i-zdqby6qs", "signature": "widget <n> jammed in <path>", "reason": "ECCError", "action": "restart", "window": ["before"], "cause": "", "remedy": "", "outcome": "worked", "job": {"name": "pretrain"}, "node": "node-004", "seen_at": "2026-11-01T00:00:00Z", "provenance": "", "confirmed_by": "mira", "frames": [], "content": "", "times_seen": 1, "imported": "", "history": [{"at": "2026-11-23T11:47:44.563Z", "by": "mira", "what": "corrected: outcome unknown -> worked"}]}');
INSERT INTO "incidents" VALUES(2,'i-qgscks66','NVRM: Xid (<pci>): 48, pid=<n>','a203aef00bd92bb4','ECCError','unknown','','2026-11-02T00:00:00Z',0,'2026-11-23T11:47:44.570Z','{"id": "i-qgscks66", "signature": "NVRM: Xid (<pci>): 48, pid=<n>", "reason": "ECCError", "action": "restart", "window": [], "cause": "", "remedy": "", "outcome": "unknown", "job": {}, "node": "", "seen_at": "2026-11-02T00:00:00Z", "provenance": "", "confirmed_by": "", "frames": [], "content": "abc", "times_seen": 1, "imported": "", "history": [{"at": "2026-11-23T11:47:44.570Z", "by": "", "what": "remembered"}]}');
INSERT INTO "incidents" VALUES(3,'i-g4stjzst','gear broke','38dccdbce6aae797','KeyError','unknown','','2026-11-03T00:00:00Z',0,'2026-11-23T11:47:44.578Z','{"id": "i-g4stjzst", "signature": "gear broke", "reason": "KeyError", "action": "restart", "window": [], "cause": "", "remedy": "", "outcome": "unknown", "job": {}, "node": "", "seen_at": "2026-11-03T00:00:00Z", "provenance": "", "confirmed_by": "", "frames": [], "content": "", "times_seen": 1, "imported": "", "history": []}');
CREATE TABLE vectors (
    embedder INTEGER NOT NULL,
    row INTEGER NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (embedder, row)
);
INSERT INTO "vectors" VALUES(1,1,X'4E0A2A3227B227B24E0A4E0A4E0A4E0A4E0A4E0A27B24E0A4E0A2A324E0A4E0A4E0A2A3227B24E0A4E0A4E0A4E0A4E0A4E0A27B22A324E0A4E0A29362A324E0A4E0A4E0A4E0A2A322A3227B24E0A27B227B24E0A4E0A4E0A2A324E0A4E0A4E0A29362A322A324E0A4E0A4E0A4E0A4E0A4E0A4E0A4E0A27B24E0A4E0A4E0A4E0A');
INSERT INTO "vectors" VALUES(1,2,X'6D0A6D0A6D0A45B26D0A6D0A48326D0A45B248326D0A6D0A45B26D0A6D0A45B26D0A483246B66D0A6D0A6D0A483248326D0A6D0A45B2483248326D0A6D0A48326D0A6D0A6D0A6D0A48326D0A6D0A6D0A6D0A6D0A6D0A45B245B2483245B26D0A6D0A45B248326D0A6D0A45B26D0A6D0A48326D0A6D0A6D0A6D0A6D0A6D0A6D0A');
INSERT INTO "vectors" VALUES(1,3,X'CC0DCC0DCC0DCC0DCC0DCC0DCC0DAB35CC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DA8B5CC0DCC0DCC0DCC0DCC0DCC0DA8B5CC0DCC0DCC0DCC0DCC0DA8B5CC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DCC0DA8B5CC0DCC0DCC0DCC0DA8B5CC0DCC0DCC0DCC0DA8B5A8B5CC0DCC0DCC0DCC0DCC0D');
CREATE INDEX incidents_fingerprint ON incidents (fingerprint, seen_at);
CREATE INDEX incidents_reason ON incidents (reason, seen_at);
CREATE INDEX incidents_node ON incidents (node, seen_at);
CREATE INDEX incidents_seen ON incidents (seen_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('incidents',3);
COMMIT;
