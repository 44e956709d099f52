CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;
CREATE TABLE key_generations (
  generation INTEGER PRIMARY KEY,
  state TEXT NOT NULL,
  floor INTEGER NOT NULL,
  wrapped BLOB NOT NULL,
  closing BLOB,
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE writer_keys (
  writer INTEGER PRIMARY KEY,
  holds TEXT NOT NULL,
  knows INTEGER NOT NULL,
  uses INTEGER NOT NULL
) STRICT;
CREATE TABLE writers (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  data_key BLOB NOT NULL,
  lease_until INTEGER NOT NULL DEFAULT 0,
  recorded_n INTEGER NOT NULL DEFAULT -1,
  recorded_by INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE commit_groups (
  id INTEGER PRIMARY KEY,
  writer INTEGER NOT NULL,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  events TEXT NOT NULL,
  callers BLOB,
  payload BLOB,
  live INTEGER NOT NULL,
  link TEXT NOT NULL,
  UNIQUE (writer, n)
) STRICT;
CREATE TABLE checkpoints (
  writer INTEGER PRIMARY KEY,
  n INTEGER NOT NULL,
  link TEXT NOT NULL,
  signature TEXT NOT NULL
) STRICT;
CREATE TABLE calls (
  no INTEGER PRIMARY KEY,
  record TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  definition TEXT NOT NULL,
  tier TEXT NOT NULL,
  replay TEXT NOT NULL,
  rerun_until INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  writer INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  claim_group INTEGER NOT NULL,
  caller_at INTEGER NOT NULL,
  caller_length INTEGER NOT NULL,
  input_at INTEGER NOT NULL,
  input_length INTEGER NOT NULL,
  outcome_group INTEGER,
  outcome_at INTEGER,
  outcome_length INTEGER,
  late_group INTEGER,
  late_at INTEGER,
  late_length INTEGER,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  expired INTEGER NOT NULL DEFAULT 0,
  run TEXT,
  session TEXT,
  parent TEXT,
  root TEXT,
  resumable INTEGER NOT NULL DEFAULT 0,
  waits_for TEXT
) STRICT;
CREATE INDEX calls_running ON calls (writer) WHERE state = 'running';
CREATE INDEX calls_ambiguous ON calls (no) WHERE state = 'ambiguous';
CREATE INDEX calls_ambiguous_run ON calls (run) WHERE state = 'ambiguous';
CREATE INDEX calls_parked ON calls (tenant, principal, fingerprint) WHERE state = 'parked';
CREATE INDEX calls_parked_run ON calls (run) WHERE state = 'parked';
CREATE INDEX calls_parked_session ON calls (session) WHERE state = 'parked';
CREATE INDEX calls_results ON calls (finished_at) WHERE finished_at IS NOT NULL AND expired = 0;
CREATE INDEX calls_tombstones ON calls (finished_at) WHERE expired = 1;
CREATE INDEX calls_steps ON calls (parent) WHERE parent IS NOT NULL;
CREATE INDEX calls_suspended ON calls (rerun_until) WHERE waits_for IS NOT NULL;
CREATE TABLE runs (
  no INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  next INTEGER NOT NULL,
  open INTEGER NOT NULL,
  touched_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT;
CREATE INDEX runs_touched ON runs (touched_at);
CREATE TABLE run_events (
  run INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  at INTEGER NOT NULL,
  fact TEXT NOT NULL,
  caller_group INTEGER,
  caller_at INTEGER,
  caller_length INTEGER,
  PRIMARY KEY (run, sequence)
) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  tool_id TEXT NOT NULL,
  run TEXT NOT NULL,
  ends_run INTEGER NOT NULL,
  writer INTEGER NOT NULL,
  address TEXT,
  state TEXT NOT NULL,
  outcome TEXT,
  opened_at INTEGER NOT NULL,
  closed_at INTEGER
) STRICT;
CREATE INDEX sessions_open ON sessions (writer) WHERE state <> 'closed';
CREATE INDEX sessions_closed ON sessions (closed_at) WHERE state = 'closed';
CREATE TABLE approvals (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  record TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  tool_id TEXT NOT NULL,
  tier TEXT NOT NULL,
  definition TEXT NOT NULL,
  run TEXT NOT NULL,
  own_session TEXT,
  binding TEXT NOT NULL,
  subject_group INTEGER NOT NULL,
  subject_at INTEGER NOT NULL,
  subject_length INTEGER NOT NULL,
  quorum INTEGER NOT NULL,
  required_scope TEXT NOT NULL,
  self_approval INTEGER NOT NULL,
  bypass INTEGER NOT NULL,
  state TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  decided_at INTEGER,
  mac TEXT,
  UNIQUE (record, attempt)
) STRICT;
CREATE INDEX approvals_open ON approvals (expires_at) WHERE state IN ('pending', 'granted');
CREATE TABLE approval_decisions (
  approval TEXT NOT NULL,
  principal TEXT NOT NULL,
  action TEXT NOT NULL,
  reason TEXT,
  at INTEGER NOT NULL,
  n INTEGER NOT NULL,
  mac TEXT,
  PRIMARY KEY (approval, principal)
) STRICT, WITHOUT ROWID;
CREATE TABLE approval_notices (
  id TEXT PRIMARY KEY,
  approval TEXT NOT NULL,
  target TEXT NOT NULL,
  tries INTEGER NOT NULL,
  next_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX approval_notices_due ON approval_notices (next_at);
CREATE INDEX approval_notices_of ON approval_notices (approval);
CREATE TABLE challenges (
  id TEXT PRIMARY KEY,
  need TEXT NOT NULL,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  user_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  scopes TEXT NOT NULL,
  tool TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  consent INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX challenges_open ON challenges (need) WHERE status = 'pending';
CREATE TABLE consents (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  challenge TEXT NOT NULL,
  stage TEXT NOT NULL,
  browser TEXT NOT NULL,
  data_key INTEGER NOT NULL,
  held BLOB NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX consents_challenge ON consents (challenge, no);
CREATE INDEX consents_tenant ON consents (tenant);
CREATE INDEX consents_expiry ON consents (expires_at);
CREATE TABLE consent_runs (
  challenge TEXT NOT NULL,
  record TEXT NOT NULL,
  need TEXT NOT NULL,
  tenant TEXT NOT NULL,
  run TEXT NOT NULL,
  provider TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (challenge, record)
) STRICT, WITHOUT ROWID;
CREATE INDEX consent_runs_need ON consent_runs (need);
CREATE INDEX consent_runs_expiry ON consent_runs (expires_at);
CREATE TABLE vault_keys (
  no INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  wrapped BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX vault_keys_tenant ON vault_keys (tenant, no);
CREATE TABLE vault (
  no INTEGER PRIMARY KEY,
  ref TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  user_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  kind TEXT NOT NULL,
  version INTEGER NOT NULL,
  data_key INTEGER NOT NULL,
  value BLOB,
  scopes TEXT NOT NULL,
  expires_at INTEGER,
  lease_until INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (tenant, principal, user_id, provider, kind)
) STRICT;
CREATE TABLE key_owners (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  mac TEXT,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE api_keys (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  label TEXT,
  scopes TEXT NOT NULL,
  roles TEXT NOT NULL,
  tools TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  used_at INTEGER,
  mac TEXT
) STRICT;
CREATE INDEX api_keys_owner ON api_keys (tenant, name);
CREATE TABLE denials (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  action TEXT NOT NULL,
  resource TEXT NOT NULL,
  reason TEXT NOT NULL,
  count INTEGER NOT NULL
) STRICT;
CREATE INDEX denials_at ON denials (at);
CREATE INDEX denials_tenant ON denials (tenant, no);
CREATE TABLE pin_sources (
  source TEXT PRIMARY KEY,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE pins (
  source TEXT NOT NULL,
  native_name TEXT NOT NULL,
  local TEXT NOT NULL,
  served INTEGER NOT NULL,
  accepted TEXT,
  waiting TEXT,
  mac TEXT,
  PRIMARY KEY (source, native_name),
  UNIQUE (source, local)
) STRICT;
CREATE TABLE sources (
  key TEXT PRIMARY KEY,
  options BLOB NOT NULL,
  added_by TEXT NOT NULL,
  added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE budgets (
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  length_ms INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  milliseconds INTEGER NOT NULL,
  cost INTEGER NOT NULL,
  PRIMARY KEY (tenant, principal, length_ms, ends_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX budgets_end ON budgets (ends_at);
CREATE TABLE rates (
  bucket TEXT NOT NULL PRIMARY KEY,
  full_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX rates_full ON rates (full_at);
CREATE TABLE caller_sessions (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  principal TEXT NOT NULL,
  agreed TEXT NOT NULL,
  touched_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX caller_sessions_touched ON caller_sessions (touched_at);
CREATE INDEX caller_sessions_owner ON caller_sessions (tenant, principal, touched_at);
CREATE TABLE caller_requests (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  request TEXT NOT NULL,
  cancelled INTEGER NOT NULL DEFAULT 0,
  began_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, session, request)
) STRICT, WITHOUT ROWID;
CREATE INDEX caller_requests_began ON caller_requests (began_at);
CREATE TABLE caller_questions (
  no INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  principal TEXT NOT NULL,
  call TEXT NOT NULL,
  data_key INTEGER NOT NULL,
  question BLOB NOT NULL,
  answer BLOB,
  expires_at INTEGER NOT NULL,
  UNIQUE (tenant, id)
) STRICT;
CREATE INDEX caller_questions_call ON caller_questions (tenant, call);
CREATE INDEX caller_questions_end ON caller_questions (expires_at);
CREATE TABLE caller_marks (
  tenant TEXT NOT NULL,
  mark TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, mark)
) STRICT, WITHOUT ROWID;
CREATE INDEX caller_marks_end ON caller_marks (expires_at);
CREATE TABLE keyed_requests (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  asked TEXT NOT NULL,
  writer TEXT NOT NULL,
  reply BLOB,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX keyed_requests_end ON keyed_requests (expires_at);
INSERT INTO api_keys (no, id, digest, tenant, name, label, scopes, roles, tools, created_at, expires_at, revoked_at, used_at, mac) VALUES (1, 'key-1', 'DIGEST-1', 'default', 'alice', 'laptop', '["mail:*"]', '[]', NULL, 1000, NULL, NULL, NULL, '1.Iin4sRPTrBKEbrVSzBXrOO3A_BMRs1vPboa1ajSK_fE');
INSERT INTO approval_decisions (approval, principal, action, reason, at, n, mac) VALUES ('approval-2', 'key:bob', 'grant', 'sealed:AAAAAWV0bcWDkk0hBipCq_obaA9sbHlz_Ngl1Q3vsOjp44YUOUXex1hnah5hrEHVr4aHCJUs', 2000, 0, '1.KCsYeMp1LeAmvVhbg7lw5rp-L0IGxGBqVyBCysI2dso');
INSERT INTO approvals (no, id, tenant, record, attempt, principal, tool, tool_id, tier, definition, run, own_session, binding, subject_group, subject_at, subject_length, quorum, required_scope, self_approval, bypass, state, created_at, expires_at, decided_at, mac) VALUES (1, 'approval-1', 'default', 'record-3', 1, 'key:alice', 'Doorbell.Ring@0.1.0', 'openwop:Doorbell.Ring', 'write', 'definition-1', 'record-3', NULL, 'binding-1', 4294967301, 145, 184, 1, 'approvals:respond', 0, 0, 'pending', 1000, 10000, NULL, '1.yrt1PuA5lwG5dHlhW_dNKp8WLqdpWj8QsBlzC-zrNjo');
INSERT INTO approvals (no, id, tenant, record, attempt, principal, tool, tool_id, tier, definition, run, own_session, binding, subject_group, subject_at, subject_length, quorum, required_scope, self_approval, bypass, state, created_at, expires_at, decided_at, mac) VALUES (2, 'approval-2', 'default', 'record-4', 1, 'key:alice', 'Doorbell.Ring@0.1.0', 'openwop:Doorbell.Ring', 'write', 'definition-1', 'record-4', NULL, 'binding-1', 4294967302, 145, 184, 1, 'approvals:respond', 0, 0, 'granted', 1000, 302000, 2000, '1.oBdvJiQg6rJk0lDMURE92pff_k8ckEUnr-DPMJ6MzHk');
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) VALUES (1, 'record-1', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', 0, 'fingerprint-1', 'succeeded', 1, 1, 1000, 1000, 4294967297, 0, 145, 0, 37, 4294967298, 0, 15, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, 0, NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) VALUES (2, 'record-2', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', 0, 'fingerprint-1', 'succeeded', 1, 1, 1000, 1000, 4294967299, 0, 148, 0, 37, 4294967300, 0, 15, NULL, NULL, NULL, 0, 0, 'key of run-a', NULL, NULL, NULL, 0, NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) VALUES (3, 'record-3', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', 0, 'fingerprint-1', 'parked', 1, 1, 1000, NULL, 4294967301, 0, 145, 0, 37, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 'record-3', NULL, NULL, NULL, 0, NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) VALUES (4, 'record-4', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', 0, 'fingerprint-1', 'parked', 1, 1, 1000, NULL, 4294967302, 0, 145, 0, 37, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 'record-4', NULL, NULL, NULL, 0, NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) VALUES (5, 'record-5', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', 0, 'fingerprint-1', 'ambiguous', 1, 1, 1000, NULL, 4294967307, 0, 145, 0, 37, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 'record-5', NULL, NULL, NULL, 0, NULL);
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967296, 1, 0, 1794827211626, '[{"type":"writer.started","at":1794827211626,"heads":[]}]', NULL, NULL, 0, '1.I9dfwkHkJ7dbG2td9N3dUa7RwZZMlacl5bNtNPhNRaY');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967297, 1, 1, 1794827211651, '[{"type":"call.claimed","at":1000,"record":"record-1","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write"}]', X'000000010000000000000000e3f24346a67ca930097d15b51543791e7e7dbd76d19c5dc82d854bf4bd5b2d3d8a748797a5e5f7577a88add2e88f1134113ffb08eb4260a673f3306a1d5f28f8d81a6fc37e0fc73c68d6a895dad9c9b71033ccda87d1dbf93a148039373851665b9b80a960fed2b299aa8928bc7284e86a4552280c17b980892ef9172eb95a57d6406ba5c81813464e26d79e109320c3daab662f3d25ee87d6cf1eed7184ad6b5a', X'000000010000000000000001484bac81d6dbd7110ead92880da6e7f1939944e87cbd3a587dcb4d4e8a3ebea1ab671bef12539a7125b838155c0067964ab3ea57f7', 1, '1.EhqJkOKFTji5S43moMkKL1RQem-HAsGZ7J78LtU99go');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967298, 1, 2, 1794827211664, '[{"type":"call.succeeded","at":1000,"record":"record-1","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"durationMs":1.5}]', NULL, X'0000000100000000000000026a2cda0ec1e99d39219a9bebf2557341d3332e1cf44255fd34453feae60404', 1, '1.Xgisy5TIfPV27NxRFTCVo5YPx8j5lfXY1gYk1GGtnZs');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967299, 1, 3, 1794827211680, '[{"type":"call.claimed","at":1000,"record":"record-2","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write","run":"key of run-a","sequence":0}]', X'0000000100000000000000033d4eb969e442eed341b52a73c418931ae27aec01cb07bb3c7fac9bb9bce5478c39ae8fba96b9b5fa6eba81fde1dfbf522b81571c206391c957bd147db2eebb9c2eccae08d48f500b7ecad5b17ebb84ebe17faed5ff1b20ee94428f6af45377eafa7a13e8aef158b555b677a75ebcc8ea945118f4e8e270da1350d36ae99ddd828a7e4f2fc9a11346dc75bdc6be418df7f00778fb1187d97a5a28acd0f1bc5425f8273a1b', X'000000010000000000000004a0854c66be269b8de8625ad597e9c9a736a513896b5708e7ba88a7bb0699c2059e32160331e84a6b70e0ebf7373f0279003df9d348', 1, '1.dX28iUpRlIv38dIFoag7_La-sdx28_5nAXXg2EztrWk');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967300, 1, 4, 1794827211695, '[{"type":"call.succeeded","at":1000,"record":"record-2","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"durationMs":1.5,"run":"key of run-a","sequence":1}]', NULL, X'0000000100000000000000054d5dbbd306a496fa558dacac395e4b8fe460c27036a44dc4962e78e5a113eb', 1, '1.-jjQiEFmJvdRgAoqrnohZY8Zu4BfeVx4Fn2DxDQRyKg');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967301, 1, 5, 1794827211712, '[{"type":"call.parked","at":1000,"record":"record-3","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"approval":"approval-1","run":"record-3","sequence":0}]', X'00000001000000000000000610b278e11fc56d8703c4e593581046edb39a23a1c0853d99dab587d1ae4aceba5a1e53ab72c9d49bc22d7277672191bab2c7d0f483b598e306a278f76f870a1c53255baafe5f539c3ade9957b06a0e471636ff7459f19773fdc9f0e23188fa42b3bbf6c18699d8db60c9d01ee5565d71739c7973927ed3f37d543d69fe45a5ac5bebe994e9595c2e5bb5b701f5fc37a50a27cc45380b30fa232f7776601464d69eb1cf0b5a14b16c5f9308e6c7e6853e737bc14dcd671620f0832fa13adebee7b857a43ebc1df495450930b240905a80ff14ff08b9e8de23348a36aa296ece3594de4849853bb15260a10073ebe10546b1a362e55f84e61e93212ef318c8a846d939ed0ed336b72729d667320a21cdcdb0cc37399e75386e749c22536c2e3f8e509d9e35a958967c43efdf70f590d73bb98a8e08e70c348872da1f0b0d9638d31cf45467d97f1e6a84264bd7d3850b41f76bf611b4836f9ada', X'00000001000000000000000730ebd30b90398700948cb54bba2acb61dcf01ba1b32b062faf16e5eac34638f98b99aa6f4fb3c5ddf5d76a8148d70cca7a710a1764', 1, '1.KVNoBscdbwzj4UzQ_JHTlLg02UuJ_7guAZI6sQH6rSY');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967302, 1, 6, 1794827211741, '[{"type":"call.parked","at":1000,"record":"record-4","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"approval":"approval-2","run":"record-4","sequence":0}]', X'0000000100000000000000086b9a2077723428170e6ad539c17a8cc4c90881f5314440039bbcb28213d044f1ec495873661d6d30cf146150e67b1735d6c0091d394df3da984afa145304a296fe1737fce3a03ba802766d73abe66fe3ad2fa3273fa4d3a64d1f7eb384eaca15bd63fd9b85741a23404b9721d55b5dbeea8140b475cd52b1e94fda32d4d33b5ebd673cfe28e4c9a2c682aa61d916aaff0d6579ef0a022ca2b8f3ea854f8cc023909023359ed3461202d7eddccac99579a91543bfc1968919f186b84c18d5a97e2b5922d72887c7e6b00546d46b3ca6d28881deba460fa654f403d6ccf4d05549b37b93c989441bcd782fb90eb8adf463dbbdbb67dd54dbe76c6eaee0942df8de97818ac4fabfa5f0917dc403b346770740b1944cd74a420dc4bc6a6bfb9d341fcaafd01ecfa94930a883b42ceb6937acce10122bb4fed08a452ef1bc9b38b882b198ffee581a9293d26948000300a5ed6208a7c0f5def8776b', X'0000000100000000000000090e37217c5eba779c085b8dca92124ab6f6961feddf9a6bc8deb87dc7b79b8f9c772ce8d8251fa07464b33fe1c989f2f34951d0fbd9', 1, '1.ie1fOLNff8E8kSX9PNt8q49JoQafh-6UD9-7goaXaKA');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967303, 1, 7, 1794827211756, '[{"type":"approval.granted","at":2000,"approval":"approval-2","tenant":"default","record":"record-4","attempt":1,"tool":"Doorbell.Ring@0.1.0","by":"key:bob","reason":"sealed:AAAAAWV0bcWDkk0hBipCq_obaA9sbHlz_Ngl1Q3vsOjp44YUOUXex1hnah5hrEHVr4aHCJUs"}]', NULL, NULL, 0, '1._xKVIT59OXl0tP5kzhVXQNG33mm47OSsK-WkQUUV81Y');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967304, 1, 8, 1794827211775, '[{"type":"vault.set","at":1000,"ref":"cred_1","tenant":"default","principal":"key:alice","provider":"google","kind":"token","by":"cli:ann","scopes":["mail.read"]}]', NULL, NULL, 0, '1.Rl6vNqsmjCcp506EEhbuhhD8Jz23HC1pJmh9wI6ozbw');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967305, 1, 9, 1794827211791, '[{"type":"key.created","at":1000,"tenant":"default","principal":"key:alice","key":"key-1","by":"operator"}]', NULL, NULL, 0, '1.lUf4Nl44sALyyUEpi_2W_GmBOTYdaPvNCcY6Lxh59Kk');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967306, 1, 10, 1794827211817, '[{"type":"source.added","at":1000,"source":"Weather","sourceType":"otc","by":"cli:ann"}]', NULL, NULL, 0, '1.1Aa7Y_pIkRz470wlHrrv9-A8dIHWMf3peOvhSUl14Ms');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967307, 1, 11, 1794827211850, '[{"type":"call.claimed","at":1000,"record":"record-5","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write"}]', X'00000001000000000000000a8c15dae0703b07de48d5bf2a45912d7647da8419e293bdd60854dccc2619fc61591b107ea8be6e92c261181edd052a073bdb6b884f567ec46394349aab5afc323db434c0605d868c62c2b8a4fa37321f7c4f033155d2ac4679cabeba48401d0b7e718ccfe2c8d9d641fd4f2a04c2496e9a8802115bad3f54c227cc787d3882cf90fb4b7e8b5be609648c02aefb62153616ff236833e08ae883739b5fb0209dd6ea', X'00000001000000000000000be48353c59cf0b37d53c537fc0f26d79d0a34a9e04c86123c18289088d2fb2f111d7153dcee5053426f248706d95d3b44e564716706', 1, '1.J_iMDkh0Hv4WOBgfdsuANUJsWKZTw-vEyR2uk4uIzI0');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967308, 1, 12, 1794827211860, '[{"type":"writer.stopped","at":1794827211860}]', NULL, NULL, 0, '1.QUTL7RZTsS8i5GgGzTTZUFP8YWMmdGCy1Y1B1VFuo0U');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (8589934592, 2, 0, 1794827211899, '[{"type":"writer.started","at":1794827211899,"heads":[{"writer":"e7ea5090-bf90-4b9d-8942-2e64562f021f","group":12,"link":"1.QUTL7RZTsS8i5GgGzTTZUFP8YWMmdGCy1Y1B1VFuo0U"}]}]', NULL, NULL, 0, '1.wBWvgnTfrebQkZC6DSP5hrdeZnBi4lq7smLrkfII3Aw');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (8589934593, 2, 1, 1794827211929, '[{"type":"call.ambiguous","at":5000,"record":"record-5","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"deadWriter":"e7ea5090-bf90-4b9d-8942-2e64562f021f","run":"record-5","sequence":1}]', NULL, NULL, 0, '1.it8fqJMkFho6eKnnegGJ4ySVWEYcakdalAqdndOdif4');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (8589934594, 2, 2, 1794827211936, '[{"type":"writer.stopped","at":1794827211936}]', NULL, NULL, 0, '1.oy1eTP620QHT2gCLqzImOuf9DTotJ1ZTP_RIdjVIKps');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (12884901888, 3, 0, 1794827212032, '[{"type":"writer.started","at":1794827212032,"heads":[{"writer":"28e0512a-ea85-4b50-9df0-595b103ea980","group":2,"link":"1.oy1eTP620QHT2gCLqzImOuf9DTotJ1ZTP_RIdjVIKps"}]}]', NULL, NULL, 0, '1.5hl7kP_QcpapY1SdY9UkCMh9kmwrNzF9M626X0tGLeU');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (12884901889, 3, 1, 1794827212044, '[{"type":"writer.stopped","at":1794827212044}]', NULL, NULL, 0, '1.u0J3BzUnI7Y7eJ7lJ3CikyHXBzodMeSg7w4TMjIBHmg');
INSERT INTO key_generations (generation, state, floor, wrapped, closing, created_at) VALUES (1, 'current', 1, X'57b2a8830a3e9fecdc6392d383afaa1576d744b2a5a234e54649ce79717b581e7eee1d7aa5b94feb548a6c3e43801c8dfcb925cb8811988325876c34', NULL, 1794827211550);
INSERT INTO key_owners (tenant, name, created_at, ended_at, mac) VALUES ('default', 'alice', 1000, NULL, '1.z8Ng6T6ExYOC9pt5BDgSNugrxAhsU2xl36evEyHKSdo');
INSERT INTO keyed_requests (tenant, id, asked, writer, reply, expires_at) VALUES ('default', 'request-1', 'asked', 'e7ea5090-bf90-4b9d-8942-2e64562f021f', X'00000001b91d66aa5423acb1f40d5e3bc09f04c4451095fa2b501f27ddfd222bca9edb2d27936eb2e2cd6c2e047d10c6e05733b1905ca74930e0034aa04a54eb9568cd0df238d9bb2077a96396f38e65', 9000000000000);
INSERT INTO meta (name, value) VALUES ('identity', 'Ch0pr8US44WLGhSSU8uCwpw5TAv0SOgbQSfxAOzGX4v6b71Z9VbiElYbqIrIOqhlNZW8g-GPDxM76s06');
INSERT INTO meta (name, value) VALUES ('key_epoch', '1');
INSERT INTO meta (name, value) VALUES ('pin_epoch', '1');
INSERT INTO meta (name, value) VALUES ('source_epoch', '1');
INSERT INTO pin_sources (source, revision) VALUES ('files', 1);
INSERT INTO pins (source, native_name, local, served, accepted, waiting, mac) VALUES ('files', 'read', 'read', 1, '{"hash":"hash","identity":{"origin":"https://tools.example"},"version":"1.0.0","by":"first sight","atMs":1000,"offered":{"nativeName":"read","description":"Reads.","inputSchema":{"type":"object"},"outputSchema":{},"policy":{},"binding":{}}}', NULL, '1.hycLaSzrWATWCrwpoao_fE329YwuOB_b2KQKwlypFu0');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (1, 0, 1000, '{"type":"called","record":"record-2","attempt":1,"principal":"key:alice"}', 4294967299, 0, 148);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (1, 1, 1000, '{"type":"returned","record":"record-2","attempt":1,"durationMs":2}', 4294967299, 0, 148);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (2, 0, 1000, '{"type":"called","record":"record-3","attempt":1,"principal":"key:alice"}', 4294967301, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (2, 1, 1000, '{"type":"interrupt.requested","record":"record-3","attempt":1,"approval":"approval-1","requiredScope":"approvals:respond","quorum":1,"tier":"write","timeoutMs":9000}', 4294967301, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (2, 2, 1000, '{"type":"node.suspended","record":"record-3","attempt":1,"approval":"approval-1"}', 4294967301, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (3, 0, 1000, '{"type":"called","record":"record-4","attempt":1,"principal":"key:alice"}', 4294967302, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (3, 1, 1000, '{"type":"interrupt.requested","record":"record-4","attempt":1,"approval":"approval-2","requiredScope":"approvals:respond","quorum":1,"tier":"write","timeoutMs":9000}', 4294967302, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (3, 2, 1000, '{"type":"node.suspended","record":"record-4","attempt":1,"approval":"approval-2"}', 4294967302, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (3, 3, 2000, '{"type":"approval.granted","record":"record-4","approval":"approval-2","by":"prn_key:bob","reason":"sealed:AAAAAWV0bcWDkk0hBipCq_obaA9sbHlz_Ngl1Q3vsOjp44YUOUXex1hnah5hrEHVr4aHCJUs","granted":1,"required":1}', NULL, NULL, NULL);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (3, 4, 2000, '{"type":"interrupt.resolved","record":"record-4","attempt":1,"approval":"approval-2","action":"accept","by":"prn_key:bob","reason":"sealed:AAAAAWV0bcWDkk0hBipCq_obaA9sbHlz_Ngl1Q3vsOjp44YUOUXex1hnah5hrEHVr4aHCJUs"}', NULL, NULL, NULL);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (4, 0, 1000, '{"type":"called","record":"record-5","attempt":1,"principal":"key:alice"}', 4294967307, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (4, 1, 5000, '{"type":"returned","record":"record-5","attempt":1,"code":"ambiguous"}', 4294967307, 0, 145);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) VALUES (1, 'key of run-a', 'default', 'key:alice', 2, 0, 1000, NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) VALUES (2, 'record-3', 'default', 'key:alice', 3, 1, 1000, NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) VALUES (3, 'record-4', 'default', 'key:alice', 5, 1, 2000, NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) VALUES (4, 'record-5', 'default', 'key:alice', 2, 0, 5000, NULL);
INSERT INTO sources (key, options, added_by, added_at) VALUES ('Weather', X'0000000170d8b78a2359d0f9012f459b629bcf551e086c7eb5cd52b424116d4c69ccf922fa5b020565b2e10a93104a42a8ffda0a5b7d97ebec4a76791da8fc7bccb27d2167e040af7dc75456af9a948d08a0e92e83aa01e34957c8a35924b1558df1e08b', 'cli:ann', 1000);
INSERT INTO vault (no, ref, tenant, principal, user_id, provider, kind, version, data_key, value, scopes, expires_at, lease_until, created_at, updated_at) VALUES (1, 'cred_1', 'default', 'key:alice', 'ann', 'google', 'token', 1, 1, X'38ce35803d7461d1af7ad7f48c4fa6cb05d98023833b67071350a6fdc277ad18575d150dc5aec5', '["mail.read"]', NULL, 0, 1000, 1000);
INSERT INTO vault_keys (no, tenant, wrapped, created_at) VALUES (1, 'default', X'000000012efb9b3c26e9032b27b6dbf69ca50c9985558f15ed6fbec14053f3489b3943dc042c01c1f56366ba6f78528d47d68ee8e934173d2ca710a9761ee521', 1000);
INSERT INTO writer_keys (writer, holds, knows, uses) VALUES (1, 'cSEzCWkAaghl', 1, 1);
INSERT INTO writer_keys (writer, holds, knows, uses) VALUES (2, 'cSEzCWkAaghl', 1, 1);
INSERT INTO writer_keys (writer, holds, knows, uses) VALUES (3, 'cSEzCWkAaghl', 1, 1);
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) VALUES (1, 'e7ea5090-bf90-4b9d-8942-2e64562f021f', 1794827211626, 5000, X'00000001a6966f518f28a079567ea8d749d4a77b7650b1e4843c84bde15336f1b8ab44cdff2d3c7f0d9ee026f403213041f0dd33fd8c93d40d241ee2778da817', 0, 12, 2);
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) VALUES (2, '28e0512a-ea85-4b50-9df0-595b103ea980', 1794827211899, 1794827211936, X'0000000142ebc7ad186a5fc848623bdac675fae9ae36577e0bdfbd252891806948f9d7602657eed70101f42e622f294c8ef6d012d4743e5f8ddeae29edf7475f', 0, 2, 3);
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) VALUES (3, 'ba2a2670-f2ed-4851-aa22-2dfd7f8a75bd', 1794827212020, 1794827212044, X'00000001af645b55f57e01501163bffeebdb11917cf170db6dbc1a02632168d137334816cb414e4e80cdc8d74fcc17be1071065402119bb87fafc34f91668800', 0, -1, 0);
PRAGMA user_version = 1;
