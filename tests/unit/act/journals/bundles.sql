BEGIN TRANSACTION;
CREATE TABLE executions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, cluster_id TEXT NOT NULL, cluster TEXT NOT NULL,
    created_at REAL NOT NULL, ended_at REAL, status TEXT NOT NULL, owner TEXT NOT NULL, plan TEXT NOT NULL,
    facts TEXT NOT NULL, head TEXT NOT NULL);
INSERT INTO "executions" VALUES(1,'simulated@b1:8080','simulated',1800000000.1,NULL,'running','test','{}','{}','{"balancer": "bundles", "settings": {"poll_interval_seconds": 0.5, "check_interval_seconds": 5.0, "max_attempts": 8, "initial_backoff_seconds": 0.1, "max_backoff_seconds": 15.0, "broker_timeout_seconds": 30.0, "external_change_timeout_seconds": 600.0, "unhealthy_timeout_seconds": 300.0, "metadata_lag_seconds": 5.0, "unreachable_timeout_seconds": 300.0, "lease_seconds": 60.0, "limits": {"max_unloads_per_batch": 4, "batch_pause_seconds": 0.5, "max_sessions_per_minute": 5000, "assign_after_seconds": 1.0, "owner_timeout_seconds": 30.0, "session_timeout_seconds": 10.0, "external_change_cooldown_seconds": 75.0, "max_plan_age_seconds": 3600.0}}, "cluster_id": "simulated@b1:8080", "status": "running", "reason": "", "outcome": null, "batches": 1, "hold": {"loadBalancerSheddingEnabled": null, "loadBalancerAutoBundleSplitEnabled": null}, "notes": [], "brokers": ["b1:8080", "b2:8080", "b3:8080"], "unwell": []}');
CREATE TABLE log (
    execution INTEGER NOT NULL REFERENCES executions(id), sequence INTEGER NOT NULL, at REAL NOT NULL,
    event TEXT NOT NULL, order_given TEXT NOT NULL, changes TEXT NOT NULL,
    PRIMARY KEY (execution, sequence)) WITHOUT ROWID;
INSERT INTO "log" VALUES(1,1,1.80000000019999980933e+09,'BundlesObserved','ReadBrokerBalancing','{"status": "running"}');
INSERT INTO "log" VALUES(1,2,1.80000000020999979975e+09,'BrokerBalancingRead','WriteBrokerBalancing','{"status": "running"}');
INSERT INTO "log" VALUES(1,3,1.80000000037999963765e+09,'BundlesObserved','UnloadBundles','{"status": "running", "1": ["requested", ""], "2": ["requested", ""]}');
CREATE TABLE requests (
    execution INTEGER NOT NULL REFERENCES executions(id), sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL, request TEXT NOT NULL, by TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0);
CREATE TABLE steps (
    execution INTEGER NOT NULL REFERENCES executions(id), number INTEGER NOT NULL,
    step TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (execution, number)) WITHOUT ROWID;
INSERT INTO "steps" VALUES(1,1,'{"number": 1, "kind": "unload", "bundle": "acme/shop/0x00000000_0x40000000", "source": "b1:8080", "target": "b2:8080", "boundaries": [], "sessions": 3, "bytes_per_second": 3000.0, "follows": null, "moves": [1]}','{"state": "requested", "reason": "", "attempts": 0, "not_before": 0.0, "started_at": 1800000000.3799996, "requested_at": 1800000000.3799996, "advanced_at": 1800000000.3799996, "ended_at": null, "origin": "b1:8080", "waits_for": null, "cut": 0, "lookup_at": null}');
INSERT INTO "steps" VALUES(1,2,'{"number": 2, "kind": "unload", "bundle": "acme/shop/0x40000000_0x80000000", "source": "b1:8080", "target": "b3:8080", "boundaries": [], "sessions": 3, "bytes_per_second": 3000.0, "follows": null, "moves": [2]}','{"state": "requested", "reason": "", "attempts": 0, "not_before": 0.0, "started_at": 1800000000.3799996, "requested_at": 1800000000.3799996, "advanced_at": 1800000000.3799996, "ended_at": null, "origin": "b1:8080", "waits_for": null, "cut": 0, "lookup_at": null}');
CREATE TRIGGER log_is_only_added_to BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER log_is_never_cut BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'append-only'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('executions',1);
COMMIT;
