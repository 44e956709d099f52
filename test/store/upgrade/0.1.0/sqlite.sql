CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
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
INSERT INTO api_keys (no, id, digest, tenant, name, label, scopes, roles, tools, created_at, expires_at, revoked_at, used_at, mac) VALUES (1, 'key-1', 'DIGEST-1', 'default', 'alice', 'laptop', '["mail:*"]', '[]', NULL, 1000, NULL, NULL, NULL, 'wJqokdS3LGJ6nGNmmce0usEoxQobAFqkK8y_LdJ05ME');
INSERT INTO approval_decisions (approval, principal, action, reason, at, n, mac) VALUES ('approval-2', 'key:bob', 'grant', 'sealed:tq1ow242Jy3x6OFB5U7c8df_zn4S3l4c1x3u7CP2aGMqhv7odd6gEMta9-q0EY8VwGw', 2000, 0, 'beyEuTuphoSO-BvQdW9P45y7aSuPANYRFNG8kUWc_5M');
INSERT INTO approvals (no, id, tenant, record, attempt, principal, tool, tool_id, tier, definition, run, own_session, binding, subject_group, subject_at, subject_length, quorum, required_scope, self_approval, bypass, state, created_at, expires_at, decided_at, mac) VALUES (1, 'approval-1', 'default', 'record-3', 1, 'key:alice', 'Doorbell.Ring@0.1.0', 'openwop:Doorbell.Ring', 'write', 'definition-1', 'record-3', NULL, 'binding-1', 4294967301, 145, 184, 1, 'approvals:respond', 0, 0, 'pending', 1000, 10000, NULL, 'BwFRlJMnKJuuP0DPPfVhDozj8bkQ6IRNMQSIfgx5rps');
INSERT INTO approvals (no, id, tenant, record, attempt, principal, tool, tool_id, tier, definition, run, own_session, binding, subject_group, subject_at, subject_length, quorum, required_scope, self_approval, bypass, state, created_at, expires_at, decided_at, mac) VALUES (2, 'approval-2', 'default', 'record-4', 1, 'key:alice', 'Doorbell.Ring@0.1.0', 'openwop:Doorbell.Ring', 'write', 'definition-1', 'record-4', NULL, 'binding-1', 4294967302, 145, 184, 1, 'approvals:respond', 0, 0, 'granted', 1000, 302000, 2000, 'uIRjn2hOlj0pT51UAV5TlrDmoK4GEHcXcGHNN8338rQ');
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) VALUES (1, 'record-1', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', 0, 'fingerprint-1', 'succeeded', 1, 1, 1000, 1000, 4294967297, 0, 145, 0, 37, 4294967298, 0, 15, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, 0, NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) VALUES (2, 'record-2', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', 0, 'fingerprint-1', 'succeeded', 1, 1, 1000, 1000, 4294967299, 0, 148, 0, 37, 4294967300, 0, 15, NULL, NULL, NULL, 0, 0, 'key of run-a', NULL, NULL, NULL, 0, NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) VALUES (3, 'record-3', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', 0, 'fingerprint-1', 'parked', 1, 1, 1000, NULL, 4294967301, 0, 145, 0, 37, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 'record-3', NULL, NULL, NULL, 0, NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) VALUES (4, 'record-4', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', 0, 'fingerprint-1', 'parked', 1, 1, 1000, NULL, 4294967302, 0, 145, 0, 37, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 'record-4', NULL, NULL, NULL, 0, NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) VALUES (5, 'record-5', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', 0, 'fingerprint-1', 'ambiguous', 1, 1, 1000, NULL, 4294967307, 0, 145, 0, 37, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 'record-5', NULL, NULL, NULL, 0, NULL);
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967296, 1, 0, 1794826908950, '[{"type":"writer.started","at":1794826908950,"heads":[]}]', NULL, NULL, 0, 'Ta0iOVuX3ywdRBPp24vNak8IzuCZNZrM8jT-B838akc');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967297, 1, 1, 1794826908959, '[{"type":"call.claimed","at":1000,"record":"record-1","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write"}]', X'0000000000000000000000003d4d2dfb46c805d4eb3a5934596ae29c02bbee4332de9c36b1c9c1687ee5b7683652e723201fbea9f01fa67b019ced222409eb7da4bd985a2bc87e957614cafd384157ca6380d6cd42f5884f6d78ca7c704c7e670a248cd365687738c0a82bd8b0b1fec84b170163ab57284cd9090ce63abb72eda83c0f4e6c273585da900f3d8a0eccfccbe4657c2f464b75b22b9dd6d200ad74e6a3b9c07b910b4183b5f2f9a7', X'0000000000000000000000013cb5ed7f98c6150a18661c9a0401ef1402c56e4fa44dfbe96665e3ebac005d3ea068f72f93db676f69700fec1149873fad886571bf', 1, 'V8s9OtemL3xogExz_MChF4RIcpTq25yRVVly-9osLCg');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967298, 1, 2, 1794826908968, '[{"type":"call.succeeded","at":1000,"record":"record-1","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"durationMs":1.5}]', NULL, X'000000000000000000000002e2c7e0e0102cd641f0c02e00b544b6d8cbeac97f7f7b70a2e53441527d8979', 1, 'ttwEffCsgOTk4orq2ZONbuimT-B2OZOq-uYuyHlJRno');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967299, 1, 3, 1794826908979, '[{"type":"call.claimed","at":1000,"record":"record-2","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write","run":"key of run-a","sequence":0}]', X'000000000000000000000003f7b0f2993fd24a260a874bdaadae0feb0841ddc81b6920c16724a19e1095281339ce9190ccbeee1f52f1b1be585d46ef02a2b0dcf8837853db75f24b921ff644a75f86a2f0441330b24182af30b8fbb21fc69c3e6e18a95033f78fe31b6a358ccd0a13adc56e747b2ea70c581395eb777d744490ccdbfbc4f0c8da929fff33e5478e6b47d8c0877ae352a02b44845c2a0aeda26048247c90456693720ee87a269db87507', X'00000000000000000000000473012cfaf19d87f76e2081bd44c6163dc0a5a59e5ec7df07c7a9f2895d351f7028ebdf2992f8de40937925096c5ef931d609dd30d0', 1, 'RVDc5fDBlYEqJ3jP9506DfYr2OjugMaWAsRg2FFFDrI');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967300, 1, 4, 1794826908987, '[{"type":"call.succeeded","at":1000,"record":"record-2","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"durationMs":1.5,"run":"key of run-a","sequence":1}]', NULL, X'00000000000000000000000531b3eed329d3838ca44c3cb56af4393df0f38366173b95389c75d46613927f', 1, 'BaCn0qc5gVyKIM1gUFCEwlFmp563zo6TaCovpXoyriI');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967301, 1, 5, 1794826908997, '[{"type":"call.parked","at":1000,"record":"record-3","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"approval":"approval-1","run":"record-3","sequence":0}]', X'000000000000000000000006f91b2820481b47fa974dc45b10ef0fee2454343637a0fee01446c70cf8b60199b80a7c9e80e25afbf0b07317a16c4bb7135e7740aa2014184da8677353d69f63d7a3dd79295bb8a8cbbc03281ba3ad0875942b191ef7515c90658e8c8b23b627220d47f1288b006097c4bde5f310f0873bd450fe75245adedafc3ed0da0340116354c42f88d0319a491e0bb043ff872956ac3cba2d3bcf8a514327e496f6f5921d78aa5e2d3f5c2162f647a88f5ab1215047991e1422db90a1de8aab0b2e83745f99a8e5c49f276013e2dac04d01016076652536afbc78c7a8f5f81f080620bd647b4ef89a96d770332e6219ea2e4c68d75457a5537a412862ff05d42c946afd627955259e11fae31e3d6f3f5a650a5dfd3cae1bb8e90048ca3ce0c0343fbda23454ab202d0cfd944296b7fa9ed19dd72d31fabe75fcf4cc115f481854e962d4d8e59d8cb5381213275dd56c84c27efa852ecdccf2499d8ee0', X'0000000000000000000000078c4ba40022c4743b337260d2130a515add3c9a9a323ca32f37a08b19050567d492bd04554830647456a86678caddf1692ae4dc150e', 1, 'XZeCgc_RhorN88b9ZnI2fetjYEpztel4dfgqK8Fages');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967302, 1, 6, 1794826909007, '[{"type":"call.parked","at":1000,"record":"record-4","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"approval":"approval-2","run":"record-4","sequence":0}]', X'0000000000000000000000087c2e8d9bd2567cf0ba41ee98ea26c231c1df2a950ad307a96ec0b8f935b34a00a8ef2a9a6899369f852612bffaf50c29bc574eeb08d4368ae591043b0d0bce2f8ac8cae898e1fd6e8241dfbb64baf9c94ff6336d98da87b1d356f46f4943416adff5bec3a6f9ecfcd3e5471f418900700b320fadb89446780c8166e14bc6a0ad1ddc668ec35f84033df5f9426c5b0ebf7e562ba595da7c5c9228e3a55da4b97d3fcb0346c5251ba95eb7165f223ee76b5426455e74f13fcd2e94ec699f3e1d25fba5545e179df173bfe3595c174ca1465698cb39f9b7843cdb56908eff985798b754d1a688c66b5cba8590931797532ebc6dc19d40567d07df33de5d81f94d4327f2e5e252d186dbbb5445955a165162d5af44ac87a56f3a6d1b4ad87e3aff9e40b5f1e74f3d2febbdb04f8d068f2ba62cf58c0ac6abb05ff3a06a6ae99e7ed188daa9c28e9e9adeec70f831742475428a05e2a21915a65b4c', X'000000000000000000000009e9f9187011eaf71f341b178c179e85cf97105b854a23727efd3d20a3b16a2f04fb9027aeaae34f7b7cd5990353c721fecbb76787f9', 1, 'FlTnMFFhc3asfsvKKuOQgP0_JCPZTWxJk3OH3aKmtA4');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967303, 1, 7, 1794826909029, '[{"type":"approval.granted","at":2000,"approval":"approval-2","tenant":"default","record":"record-4","attempt":1,"tool":"Doorbell.Ring@0.1.0","by":"key:bob","reason":"sealed:tq1ow242Jy3x6OFB5U7c8df_zn4S3l4c1x3u7CP2aGMqhv7odd6gEMta9-q0EY8VwGw"}]', NULL, NULL, 0, '5otD6DpdePNMo9zHTR2PMKJdXfExCzTFJOWDfLH2wFM');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967304, 1, 8, 1794826909053, '[{"type":"vault.set","at":1000,"ref":"cred_1","tenant":"default","principal":"key:alice","provider":"google","kind":"token","by":"cli:ann","scopes":["mail.read"]}]', NULL, NULL, 0, 'hX5cJKM1vONro-AKj38NohnAVdiyXncRkrJfICZi4Nc');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967305, 1, 9, 1794826909061, '[{"type":"key.created","at":1000,"tenant":"default","principal":"key:alice","key":"key-1","by":"operator"}]', NULL, NULL, 0, 'pRboj8xioJyHaZKX0_bksw80ESzAGsIvStHQGveA_tk');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967306, 1, 10, 1794826909074, '[{"type":"source.added","at":1000,"source":"Weather","sourceType":"otc","by":"cli:ann"}]', NULL, NULL, 0, 'Fa649vL-SYCxQ5cQnHUcB31Gs7jRD2nvB3K2W93Qvpg');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967307, 1, 11, 1794826909102, '[{"type":"call.claimed","at":1000,"record":"record-5","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write"}]', X'00000000000000000000000a1b07b85f31f196c82cbb4a96677e6167c2fae41b9f2f99c7bd47dbefa5728eef2c373452e270eab4863a6dd1609bebe7ba012858115c3722d0ba787e6bd6a1996a07ddad140cb085bb2b97b99331cd4df446dfb511466b9ea3ff0d27093d1d7c712e723f60a1b57260c04fb1838b24315e117cc10ef91749530278a7dc0f4673d27b305e5697ed13ccac45a88f260e3ca8db7fe8a4222ab5906a1fd26fff339e70', X'00000000000000000000000be45779a02be367fc910bae5fb28ffb2e492b791a8afef6658bd5cb607ae376e537f7df5220982f30f65b7e1ce1417588f38f501788', 1, 'EqooH5Bah0Nq5iHlKVDwdl-gxJVTqu1fgM4lTUgVpIY');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (4294967308, 1, 12, 1794826909107, '[{"type":"writer.stopped","at":1794826909107}]', NULL, NULL, 0, 'yjiZNk8WnUsWWC2OdFc4r5aewg_Trolh-dZwygUiVcI');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (8589934592, 2, 0, 1794826909157, '[{"type":"writer.started","at":1794826909157,"heads":[{"writer":"3165ea2a-cdd5-4d3d-92f2-f05243a951c9","group":12,"link":"yjiZNk8WnUsWWC2OdFc4r5aewg_Trolh-dZwygUiVcI"}]}]', NULL, NULL, 0, 'BMeUATKvjB6yY5hns3nkVc9ZpCq8ODKrDZHDxaxkYmM');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (8589934593, 2, 1, 1794826909177, '[{"type":"call.ambiguous","at":5000,"record":"record-5","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"deadWriter":"3165ea2a-cdd5-4d3d-92f2-f05243a951c9","run":"record-5","sequence":1}]', NULL, NULL, 0, 'mnB1X5QkEc-SFLerxAxKIlC-tzSSzT20UIA4Y2cwfu4');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (8589934594, 2, 2, 1794826909189, '[{"type":"writer.stopped","at":1794826909189}]', NULL, NULL, 0, 'IekvMlBYMHpd2A3bF1vTU08CJ0Vq4WpbA4BdQObB8mY');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (12884901888, 3, 0, 1794826909259, '[{"type":"writer.started","at":1794826909259,"heads":[{"writer":"807ccf7b-38ec-42b2-9502-d783e1cfad7e","group":2,"link":"IekvMlBYMHpd2A3bF1vTU08CJ0Vq4WpbA4BdQObB8mY"}]}]', NULL, NULL, 0, 'cWj3jVSGVvn3NNa1-OtPoC4UdeBv9n02ftb459oHd0Y');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (12884901889, 3, 1, 1794826909272, '[{"type":"writer.stopped","at":1794826909272}]', NULL, NULL, 0, 'nRtS8dbvV7BUe9l6OIgeX34LOj-zjA_Af9hypuAxK4Q');
INSERT INTO key_owners (tenant, name, created_at, ended_at, mac) VALUES ('default', 'alice', 1000, NULL, '_keYBNIM36doBYxqNscDYBSxcm3qnvpWExSMGcd0kjo');
INSERT INTO keyed_requests (tenant, id, asked, writer, reply, expires_at) VALUES ('default', 'request-1', 'asked', '3165ea2a-cdd5-4d3d-92f2-f05243a951c9', X'62a375c861307ee702407c0a184146d3037e681fda46e7286f24129d4661ebcb1becd6d24df1227d10ba4b92274a9a8ef2b292579e81cc6e7b1c941dedfdbd03be8cdd4be5645fe6432170c7', 9000000000000);
INSERT INTO meta (name, value) VALUES ('key_check', 'fFpiPc6hjj1faoL9rIv2HgBmauYjzikajcQc35pELzs');
INSERT INTO meta (name, value) VALUES ('key_epoch', '1');
INSERT INTO meta (name, value) VALUES ('pin_epoch', '1');
INSERT INTO meta (name, value) VALUES ('source_epoch', '1');
INSERT INTO pin_sources (source, revision) VALUES ('files', 1);
INSERT INTO pins (source, native_name, local, served, accepted, waiting, mac) VALUES ('files', 'read', 'read', 1, '{"hash":"hash","identity":{"origin":"https://tools.example"},"version":"1.0.0","by":"first sight","atMs":1000,"offered":{"nativeName":"read","description":"Reads.","inputSchema":{"type":"object"},"outputSchema":{},"policy":{},"binding":{}}}', NULL, 'vTFD4HhPUgFg9j1Z4Hahd3Lw8ASc5ynzX29SVHQw_00');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (1, 0, 1000, '{"type":"called","record":"record-2","attempt":1,"principal":"key:alice"}', 4294967299, 0, 148);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (1, 1, 1000, '{"type":"returned","record":"record-2","attempt":1,"durationMs":2}', 4294967299, 0, 148);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (2, 0, 1000, '{"type":"called","record":"record-3","attempt":1,"principal":"key:alice"}', 4294967301, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (2, 1, 1000, '{"type":"interrupt.requested","record":"record-3","attempt":1,"approval":"approval-1","requiredScope":"approvals:respond","quorum":1,"tier":"write","timeoutMs":9000}', 4294967301, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (2, 2, 1000, '{"type":"node.suspended","record":"record-3","attempt":1,"approval":"approval-1"}', 4294967301, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (3, 0, 1000, '{"type":"called","record":"record-4","attempt":1,"principal":"key:alice"}', 4294967302, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (3, 1, 1000, '{"type":"interrupt.requested","record":"record-4","attempt":1,"approval":"approval-2","requiredScope":"approvals:respond","quorum":1,"tier":"write","timeoutMs":9000}', 4294967302, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (3, 2, 1000, '{"type":"node.suspended","record":"record-4","attempt":1,"approval":"approval-2"}', 4294967302, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (3, 3, 2000, '{"type":"approval.granted","record":"record-4","approval":"approval-2","by":"prn_key:bob","reason":"sealed:tq1ow242Jy3x6OFB5U7c8df_zn4S3l4c1x3u7CP2aGMqhv7odd6gEMta9-q0EY8VwGw","granted":1,"required":1}', NULL, NULL, NULL);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (3, 4, 2000, '{"type":"interrupt.resolved","record":"record-4","attempt":1,"approval":"approval-2","action":"accept","by":"prn_key:bob","reason":"sealed:tq1ow242Jy3x6OFB5U7c8df_zn4S3l4c1x3u7CP2aGMqhv7odd6gEMta9-q0EY8VwGw"}', NULL, NULL, NULL);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (4, 0, 1000, '{"type":"called","record":"record-5","attempt":1,"principal":"key:alice"}', 4294967307, 0, 145);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) VALUES (4, 1, 5000, '{"type":"returned","record":"record-5","attempt":1,"code":"ambiguous"}', 4294967307, 0, 145);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) VALUES (1, 'key of run-a', 'default', 'key:alice', 2, 0, 1000, NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) VALUES (2, 'record-3', 'default', 'key:alice', 3, 1, 1000, NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) VALUES (3, 'record-4', 'default', 'key:alice', 5, 1, 2000, NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) VALUES (4, 'record-5', 'default', 'key:alice', 2, 0, 5000, NULL);
INSERT INTO sources (key, options, added_by, added_at) VALUES ('Weather', X'8803be21d35b6dbe376efa9806e9983e1fff4cdeabc076d6703eede9c3abb4ff82b2dc0c51601d81e36ce10e29ef1077a37f3b59f4defdb66e7b66deadf437b8345b7084b52651c042c3fef3e0fd68bd138a8177b328c6edde8e55ccac06a552', 'cli:ann', 1000);
INSERT INTO vault (no, ref, tenant, principal, user_id, provider, kind, version, data_key, value, scopes, expires_at, lease_until, created_at, updated_at) VALUES (1, 'cred_1', 'default', 'key:alice', 'ann', 'google', 'token', 1, 1, X'ebff947b764611affa9bd8d872b20c393c0d88c274288444148bedb0a034d9cbfeeb9344d6ae61', '["mail.read"]', NULL, 0, 1000, 1000);
INSERT INTO vault_keys (no, tenant, wrapped, created_at) VALUES (1, 'default', X'9941013e73cf4badb21a6453cc33f63c9df9514e8de89231936fde98d73513781aedddb0c82088b09e497400d8f14c04f9917da0cd2b90dec6bd653e', 1000);
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) VALUES (1, '3165ea2a-cdd5-4d3d-92f2-f05243a951c9', 1794826908949, 5000, X'17c6e32bfb0bd93a8180c5ef984fbe0c427452d3f0e515d895d12583cefa62d8aed2c0633b0790da94ea6961ac8fc76cbd2318335411f2e571a97684', 0, 12, 2);
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) VALUES (2, '807ccf7b-38ec-42b2-9502-d783e1cfad7e', 1794826909157, 1794826909189, X'7695cfd003f5411efa226ed0714dd0c9a731a5b04b831de7cc95f30c2ab0e716bbe87294c6adda5e2c0a14052ba8fb98bb9a26144ac259117b1d8dbc', 0, 2, 3);
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) VALUES (3, '4e5165e9-9d33-4b47-8c57-7dd0621a5c76', 1794826909259, 1794826909272, X'ef8c88e45d588ef6044caa67a7fd431adbf25e91b1dc9ee23a9b861379c1a5da7381984edb27dda047e44876b72dae61b9193ea3a5449019c10bed14', 0, -1, 0);
PRAGMA user_version = 1;
