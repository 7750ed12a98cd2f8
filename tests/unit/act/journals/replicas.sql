BEGIN TRANSACTION;
CREATE TABLE executions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, cluster_id TEXT NOT NULL, cluster TEXT NOT NULL,
    created_at REAL NOT NULL, ended_at REAL, status TEXT NOT NULL, owner TEXT NOT NULL, plan TEXT NOT NULL,
    facts TEXT NOT NULL, head TEXT NOT NULL);
INSERT INTO "executions" VALUES(1,'fake-cluster','fake',1000000.01,NULL,'running','test','{}','{}','{"balancer": "replicas", "settings": {"poll_interval_seconds": 0.5, "check_interval_seconds": 5.0, "max_attempts": 8, "initial_backoff_seconds": 0.1, "max_backoff_seconds": 15.0, "broker_timeout_seconds": 30.0, "external_change_timeout_seconds": 600.0, "unhealthy_timeout_seconds": 300.0, "metadata_lag_seconds": 5.0, "unreachable_timeout_seconds": 300.0, "lease_seconds": 60.0, "throttle": "50000000", "throttle_initial_bytes_per_second": 50000000.0, "throttle_min_bytes_per_second": 1000000.0, "throttle_headroom_fraction": 0.5, "initial_copies_per_broker": 5, "max_copies_per_broker": 20, "max_copies_per_cluster": 100, "max_leaders_per_batch": 500, "disk_reserve_fraction": 0.05, "skip_unneeded": true, "stall_timeout_seconds": 300.0, "in_sync_timeout_seconds": 60.0}, "cluster_id": "fake-cluster", "status": "running", "reason": "", "outcome": null, "brokers": [1, 2, 3, 4, 5, 6], "baseline": [], "throttle": {"original": {"leader_rate": null, "follower_rate": null, "leader_replicas": {"t": null}, "follower_replicas": {"t": null}}, "rates_touched": true}, "initial_copies_per_broker": 5, "rate_bytes_per_second": 50000000.0, "batches": 1}');
CREATE TABLE log (
    execution INTEGER NOT NULL REFERENCES executions(id), sequence INTEGER NOT NULL, at REAL NOT NULL,
    event TEXT NOT NULL, order_given TEXT NOT NULL, changes TEXT NOT NULL,
    PRIMARY KEY (execution, sequence)) WITHOUT ROWID;
INSERT INTO "log" VALUES(1,1,1000000.02,'ReplicasObserved','CheckReplicaLoad','{"status": "running", "1": ["pending", ""], "2": ["pending", ""], "3": ["pending", ""]}');
INSERT INTO "log" VALUES(1,2,1000000.02,'ReplicaLoadChecked','Reassign','{"status": "running", "3": ["requested", ""]}');
INSERT INTO "log" VALUES(1,3,1000000.03,'ReassignAnswered','ObserveReplicas','{"status": "running", "3": ["moving", ""]}');
INSERT INTO "log" VALUES(1,4,1000000.04,'ReplicasObserved','ElectPreferred','{"status": "running", "3": ["electing", ""]}');
INSERT INTO "log" VALUES(1,5,1000000.06,'ReplicasObserved','ObserveReplicas','{"status": "running", "3": ["done", ""]}');
INSERT INTO "log" VALUES(1,6,1.00000007000000006517e+06,'ReplicaLoadChecked','ReadThrottle','{"status": "running"}');
INSERT INTO "log" VALUES(1,7,1.00000007000000006517e+06,'ThrottleRead','WriteThrottle','{"status": "running"}');
CREATE TABLE requests (
    execution INTEGER NOT NULL REFERENCES executions(id), sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL, request TEXT NOT NULL, by TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0);
CREATE TABLE steps (
    execution INTEGER NOT NULL REFERENCES executions(id), number INTEGER NOT NULL,
    step TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (execution, number)) WITHOUT ROWID;
INSERT INTO "steps" VALUES(1,1,'{"number": 1, "kind": "copy", "phase": 1, "partition": ["t", 0], "before": [1, 2], "after": [4, 2], "leader": null, "bytes": 300000000, "follows": null, "directories": [], "old_directories": [], "moves": [1]}','{"state": "pending", "reason": "", "attempts": 0, "not_before": 0.0, "copied_bytes": 0, "started_at": null, "advanced_at": null, "ended_at": null, "topic_id": "id-1", "rollback": null, "min_remaining_bytes": null, "max_remaining_bytes": null, "nearer_at": null, "source_bytes": null, "measured_at": null, "written_bytes_per_second": 0.0}');
INSERT INTO "steps" VALUES(1,2,'{"number": 2, "kind": "lead", "phase": 2, "partition": ["t", 0], "before": [4, 2], "after": [4, 2], "leader": 4, "bytes": 0, "follows": 1, "directories": [], "old_directories": [], "moves": []}','{"state": "pending", "reason": "", "attempts": 0, "not_before": 0.0, "copied_bytes": 0, "started_at": null, "advanced_at": null, "ended_at": null, "topic_id": "id-1", "rollback": null, "min_remaining_bytes": null, "max_remaining_bytes": null, "nearer_at": null, "source_bytes": null, "measured_at": null, "written_bytes_per_second": 0.0}');
INSERT INTO "steps" VALUES(1,3,'{"number": 3, "kind": "lead", "phase": 0, "partition": ["t", 1], "before": [1, 3], "after": [3, 1], "leader": 3, "bytes": 0, "follows": null, "directories": [], "old_directories": [], "moves": [2]}','{"state": "done", "reason": "", "attempts": 0, "not_before": 1000005.04, "copied_bytes": 0, "started_at": 1000000.02, "advanced_at": 1000000.06, "ended_at": 1000000.06, "topic_id": "id-1", "rollback": null, "min_remaining_bytes": null, "max_remaining_bytes": null, "nearer_at": null, "source_bytes": null, "measured_at": null, "written_bytes_per_second": 0.0}');
CREATE TRIGGER log_is_only_added_to BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER log_is_never_cut BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'append-only'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('executions',1);
COMMIT;
