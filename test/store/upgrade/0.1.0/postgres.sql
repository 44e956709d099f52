CREATE FUNCTION max(a BIGINT, b BIGINT) RETURNS BIGINT IMMUTABLE PARALLEL SAFE LANGUAGE sql RETURN greatest(a, b);
CREATE FUNCTION min(a BIGINT, b BIGINT) RETURNS BIGINT IMMUTABLE PARALLEL SAFE LANGUAGE sql RETURN least(a, b);
CREATE TABLE meta (
  name TEXT COLLATE "C" PRIMARY KEY,
  value TEXT COLLATE "C" NOT NULL
);

CREATE TABLE writers (
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  started_at BIGINT NOT NULL,
  ended_at BIGINT,
  data_key BYTEA NOT NULL,
  lease_until BIGINT NOT NULL DEFAULT 0,
  recorded_n BIGINT NOT NULL DEFAULT -1,
  recorded_by BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE commit_groups (
  id BIGINT PRIMARY KEY,
  writer BIGINT NOT NULL,
  n BIGINT NOT NULL,
  at BIGINT NOT NULL,
  events TEXT COLLATE "C" NOT NULL,
  callers BYTEA,
  payload BYTEA,
  live BIGINT NOT NULL,
  link TEXT COLLATE "C" NOT NULL,
  UNIQUE (writer, n, id)
) PARTITION BY RANGE (id);

CREATE TABLE checkpoints (
  writer BIGINT PRIMARY KEY,
  n BIGINT NOT NULL,
  link TEXT COLLATE "C" NOT NULL,
  signature TEXT COLLATE "C" NOT NULL
);

CREATE TABLE calls (
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  record TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  definition TEXT COLLATE "C" NOT NULL,
  tier TEXT COLLATE "C" NOT NULL,
  replay TEXT COLLATE "C" NOT NULL,
  rerun_until BIGINT NOT NULL,
  fingerprint TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  attempt BIGINT NOT NULL,
  writer BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  finished_at BIGINT,
  claim_group BIGINT NOT NULL,
  caller_at BIGINT NOT NULL,
  caller_length BIGINT NOT NULL,
  input_at BIGINT NOT NULL,
  input_length BIGINT NOT NULL,
  outcome_group BIGINT,
  outcome_at BIGINT,
  outcome_length BIGINT,
  late_group BIGINT,
  late_at BIGINT,
  late_length BIGINT,
  cancel_requested BIGINT NOT NULL DEFAULT 0,
  expired BIGINT NOT NULL DEFAULT 0,
  run TEXT COLLATE "C",
  session TEXT COLLATE "C",
  parent TEXT COLLATE "C",
  root TEXT COLLATE "C",
  resumable BIGINT NOT NULL DEFAULT 0,
  waits_for TEXT COLLATE "C"
);

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
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  next BIGINT NOT NULL,
  open BIGINT NOT NULL,
  touched_at BIGINT NOT NULL,
  ended_at BIGINT
);

CREATE INDEX runs_touched ON runs (touched_at);

CREATE TABLE run_events (
  run BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  at BIGINT NOT NULL,
  fact TEXT COLLATE "C" NOT NULL,
  caller_group BIGINT,
  caller_at BIGINT,
  caller_length BIGINT,
  PRIMARY KEY (run, sequence)
);

CREATE TABLE sessions (
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  tool_id TEXT COLLATE "C" NOT NULL,
  run TEXT COLLATE "C" NOT NULL,
  ends_run BIGINT NOT NULL,
  writer BIGINT NOT NULL,
  address TEXT COLLATE "C",
  state TEXT COLLATE "C" NOT NULL,
  outcome TEXT COLLATE "C",
  opened_at BIGINT NOT NULL,
  closed_at BIGINT
);

CREATE INDEX sessions_open ON sessions (writer) WHERE state <> 'closed';
CREATE INDEX sessions_closed ON sessions (closed_at) WHERE state = 'closed';

CREATE TABLE approvals (
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant TEXT COLLATE "C" NOT NULL,
  record TEXT COLLATE "C" NOT NULL,
  attempt BIGINT NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  tool_id TEXT COLLATE "C" NOT NULL,
  tier TEXT COLLATE "C" NOT NULL,
  definition TEXT COLLATE "C" NOT NULL,
  run TEXT COLLATE "C" NOT NULL,
  own_session TEXT COLLATE "C",
  binding TEXT COLLATE "C" NOT NULL,
  subject_group BIGINT NOT NULL,
  subject_at BIGINT NOT NULL,
  subject_length BIGINT NOT NULL,
  quorum BIGINT NOT NULL,
  required_scope TEXT COLLATE "C" NOT NULL,
  self_approval BIGINT NOT NULL,
  bypass BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  decided_at BIGINT,
  mac TEXT COLLATE "C",
  UNIQUE (record, attempt)
);

CREATE INDEX approvals_open ON approvals (expires_at) WHERE state IN ('pending', 'granted');

CREATE TABLE approval_decisions (
  approval TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  action TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C",
  at BIGINT NOT NULL,
  n BIGINT NOT NULL,
  mac TEXT COLLATE "C",
  PRIMARY KEY (approval, principal)
);

CREATE TABLE approval_notices (
  id TEXT COLLATE "C" PRIMARY KEY,
  approval TEXT COLLATE "C" NOT NULL,
  target TEXT COLLATE "C" NOT NULL,
  tries BIGINT NOT NULL,
  next_at BIGINT NOT NULL
);

CREATE INDEX approval_notices_due ON approval_notices (next_at);
CREATE INDEX approval_notices_of ON approval_notices (approval);

CREATE TABLE challenges (
  id TEXT COLLATE "C" PRIMARY KEY,
  need TEXT COLLATE "C" NOT NULL,
  tenant TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  user_id TEXT COLLATE "C" NOT NULL,
  provider TEXT COLLATE "C" NOT NULL,
  scopes TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  consent BIGINT NOT NULL DEFAULT 0
);

CREATE UNIQUE INDEX challenges_open ON challenges (need) WHERE status = 'pending';

CREATE TABLE consents (
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant TEXT COLLATE "C" NOT NULL,
  challenge TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  browser TEXT COLLATE "C" NOT NULL,
  data_key BIGINT NOT NULL,
  held BYTEA NOT NULL,
  expires_at BIGINT NOT NULL
);

CREATE INDEX consents_challenge ON consents (challenge, no);
CREATE INDEX consents_tenant ON consents (tenant);
CREATE INDEX consents_expiry ON consents (expires_at);

CREATE TABLE consent_runs (
  challenge TEXT COLLATE "C" NOT NULL,
  record TEXT COLLATE "C" NOT NULL,
  need TEXT COLLATE "C" NOT NULL,
  tenant TEXT COLLATE "C" NOT NULL,
  run TEXT COLLATE "C" NOT NULL,
  provider TEXT COLLATE "C" NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (challenge, record)
);

CREATE INDEX consent_runs_need ON consent_runs (need);
CREATE INDEX consent_runs_expiry ON consent_runs (expires_at);

CREATE TABLE vault_keys (
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant TEXT COLLATE "C" NOT NULL,
  wrapped BYTEA NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE INDEX vault_keys_tenant ON vault_keys (tenant, no);

CREATE TABLE vault (
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  ref TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  user_id TEXT COLLATE "C" NOT NULL,
  provider TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  data_key BIGINT NOT NULL,
  value BYTEA,
  scopes TEXT COLLATE "C" NOT NULL,
  expires_at BIGINT,
  lease_until BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  UNIQUE (tenant, principal, user_id, provider, kind)
);

CREATE TABLE key_owners (
  tenant TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  ended_at BIGINT,
  mac TEXT COLLATE "C",
  PRIMARY KEY (tenant, name)
);

CREATE TABLE api_keys (
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  digest TEXT COLLATE "C" NOT NULL,
  tenant TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  label TEXT COLLATE "C",
  scopes TEXT COLLATE "C" NOT NULL,
  roles TEXT COLLATE "C" NOT NULL,
  tools TEXT COLLATE "C",
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  revoked_at BIGINT,
  used_at BIGINT,
  mac TEXT COLLATE "C"
);

CREATE INDEX api_keys_owner ON api_keys (tenant, name);

CREATE TABLE denials (
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at BIGINT NOT NULL,
  tenant TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  action TEXT COLLATE "C" NOT NULL,
  resource TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  count BIGINT NOT NULL
);

CREATE INDEX denials_at ON denials (at);
CREATE INDEX denials_tenant ON denials (tenant, no);

CREATE TABLE pin_sources (
  source TEXT COLLATE "C" PRIMARY KEY,
  revision BIGINT NOT NULL
);

CREATE TABLE pins (
  source TEXT COLLATE "C" NOT NULL,
  native_name TEXT COLLATE "C" NOT NULL,
  local TEXT COLLATE "C" NOT NULL,
  served BIGINT NOT NULL,
  accepted TEXT COLLATE "C",
  waiting TEXT COLLATE "C",
  mac TEXT COLLATE "C",
  PRIMARY KEY (source, native_name),
  UNIQUE (source, local)
);

CREATE TABLE sources (
  key TEXT COLLATE "C" PRIMARY KEY,
  options BYTEA NOT NULL,
  added_by TEXT COLLATE "C" NOT NULL,
  added_at BIGINT NOT NULL
);

CREATE TABLE budgets (
  tenant TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  length_ms BIGINT NOT NULL,
  ends_at BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  milliseconds BIGINT NOT NULL,
  cost BIGINT NOT NULL,
  PRIMARY KEY (tenant, principal, length_ms, ends_at)
);

CREATE INDEX budgets_end ON budgets (ends_at);

CREATE TABLE rates (
  bucket TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  full_at BIGINT NOT NULL
);

CREATE INDEX rates_full ON rates (full_at);

CREATE TABLE caller_sessions (
  tenant TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  agreed TEXT COLLATE "C" NOT NULL,
  touched_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE INDEX caller_sessions_touched ON caller_sessions (touched_at);
CREATE INDEX caller_sessions_owner ON caller_sessions (tenant, principal, touched_at);

CREATE TABLE caller_requests (
  tenant TEXT COLLATE "C" NOT NULL,
  session TEXT COLLATE "C" NOT NULL,
  request TEXT COLLATE "C" NOT NULL,
  cancelled BIGINT NOT NULL DEFAULT 0,
  began_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, session, request)
);

CREATE INDEX caller_requests_began ON caller_requests (began_at);

CREATE TABLE caller_questions (
  no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  call TEXT COLLATE "C" NOT NULL,
  data_key BIGINT NOT NULL,
  question BYTEA NOT NULL,
  answer BYTEA,
  expires_at BIGINT NOT NULL,
  UNIQUE (tenant, id)
);

CREATE INDEX caller_questions_call ON caller_questions (tenant, call);
CREATE INDEX caller_questions_end ON caller_questions (expires_at);

CREATE TABLE caller_marks (
  tenant TEXT COLLATE "C" NOT NULL,
  mark TEXT COLLATE "C" NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, mark)
);

CREATE INDEX caller_marks_end ON caller_marks (expires_at);

CREATE TABLE keyed_requests (
  tenant TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  asked TEXT COLLATE "C" NOT NULL,
  writer TEXT COLLATE "C" NOT NULL,
  reply BYTEA,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE INDEX keyed_requests_end ON keyed_requests (expires_at);
CREATE TABLE journal_volumes (day BIGINT PRIMARY KEY, next BIGINT NOT NULL);
CREATE TABLE commit_groups_rest PARTITION OF commit_groups DEFAULT;
INSERT INTO api_keys (no, id, digest, tenant, name, label, scopes, roles, tools, created_at, expires_at, revoked_at, used_at, mac) OVERRIDING SYSTEM VALUE VALUES ('1', 'key-1', 'DIGEST-1', 'default', 'alice', 'laptop', '["mail:*"]', '[]', NULL, '1000', NULL, NULL, NULL, 'wJqokdS3LGJ6nGNmmce0usEoxQobAFqkK8y_LdJ05ME');
SELECT setval('api_keys_no_seq', max(no)) FROM api_keys;
INSERT INTO approval_decisions (approval, principal, action, reason, at, n, mac) OVERRIDING SYSTEM VALUE VALUES ('approval-2', 'key:bob', 'grant', 'sealed:bY4_7RXtbqnSir5bn31-S-TnE7bvuo6gDAVEki3pCPaPbFtHetJzNbPC_kIIq_eIr-0', '2000', '0', 'yu-OM85D-m0wHq21i6Czo_qKgHGIQ05IBApAXVxpI-I');
INSERT INTO approvals (no, id, tenant, record, attempt, principal, tool, tool_id, tier, definition, run, own_session, binding, subject_group, subject_at, subject_length, quorum, required_scope, self_approval, bypass, state, created_at, expires_at, decided_at, mac) OVERRIDING SYSTEM VALUE VALUES ('1', 'approval-1', 'default', 'record-3', '1', 'key:alice', 'Doorbell.Ring@0.1.0', 'openwop:Doorbell.Ring', 'write', 'definition-1', 'record-3', NULL, 'binding-1', '752065953398789', '145', '184', '1', 'approvals:respond', '0', '0', 'pending', '1000', '10000', NULL, 'hnV8DJoQ4SMUSBPxvJgBy-b2-lEOS5J_lXW-6yaE08Q');
INSERT INTO approvals (no, id, tenant, record, attempt, principal, tool, tool_id, tier, definition, run, own_session, binding, subject_group, subject_at, subject_length, quorum, required_scope, self_approval, bypass, state, created_at, expires_at, decided_at, mac) OVERRIDING SYSTEM VALUE VALUES ('2', 'approval-2', 'default', 'record-4', '1', 'key:alice', 'Doorbell.Ring@0.1.0', 'openwop:Doorbell.Ring', 'write', 'definition-1', 'record-4', NULL, 'binding-1', '752065953398790', '145', '184', '1', 'approvals:respond', '0', '0', 'granted', '1000', '302000', '2000', 'EHv4XLZQeWda30TC7w5MYv591QJp3z48UUljZsNDuGY');
SELECT setval('approvals_no_seq', max(no)) FROM approvals;
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) OVERRIDING SYSTEM VALUE VALUES ('1', 'record-1', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', '0', 'fingerprint-1', 'succeeded', '1', '1', '1000', '1000', '752065953398785', '0', '145', '0', '37', '752065953398786', '0', '15', NULL, NULL, NULL, '0', '0', NULL, NULL, NULL, NULL, '0', NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) OVERRIDING SYSTEM VALUE VALUES ('2', 'record-2', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', '0', 'fingerprint-1', 'succeeded', '1', '1', '1000', '1000', '752065953398787', '0', '148', '0', '37', '752065953398788', '0', '15', NULL, NULL, NULL, '0', '0', 'key of run-a', NULL, NULL, NULL, '0', NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) OVERRIDING SYSTEM VALUE VALUES ('3', 'record-3', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', '0', 'fingerprint-1', 'parked', '1', '1', '1000', NULL, '752065953398789', '0', '145', '0', '37', NULL, NULL, NULL, NULL, NULL, NULL, '0', '0', 'record-3', NULL, NULL, NULL, '0', NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) OVERRIDING SYSTEM VALUE VALUES ('4', 'record-4', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', '0', 'fingerprint-1', 'parked', '1', '1', '1000', NULL, '752065953398790', '0', '145', '0', '37', NULL, NULL, NULL, NULL, NULL, NULL, '0', '0', 'record-4', NULL, NULL, NULL, '0', NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) OVERRIDING SYSTEM VALUE VALUES ('5', 'record-5', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', '0', 'fingerprint-1', 'ambiguous', '1', '1', '1000', NULL, '752065953398795', '0', '145', '0', '37', NULL, NULL, NULL, NULL, NULL, NULL, '0', '0', 'record-5', NULL, NULL, NULL, '0', NULL);
SELECT setval('calls_no_seq', max(no)) FROM calls;
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398784', '1', '0', '1794826911285', '[{"type":"writer.started","at":1794826911285,"heads":[]}]', NULL, NULL, '0', '_GNk3LVsMvw4l7LxSwa7LtcsqwcKpgHh2K4d00H8Y8s');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398785', '1', '1', '1794826911321', '[{"type":"call.claimed","at":1000,"record":"record-1","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write"}]', '\x000000000000000000000000cd1ce51701fe6d12b8088ac0d4875d0ef59f738119b181e8f625d8da1cb200a85a883d697a18f3fe5657e73b62c88789f10c83c4c4650c32c498c70c2fb01c5626e4d75bf14e9399acaa25475494cac50fa6af6f66f4fae19c37ea79a9c472081f65b11f822e9145f421f9c54b4dbc10e3ce799ff97102099eaaf85a05206f29551817e3a978b083123aa1d600e80a450a81f5bc08bcc3a538786125197d0c7dfd', '\x000000000000000000000001b3a63fa224f440eb0ab44d9e766f2b6cd4fd0c4fec14fb144e81b6115065f1b71e15e70aaa093304225f89b9de734a0238c5f31cd0', '1', '1BjTNTjizkp4ZeIc2jqh1uktEZvCmtVNxTqrLdLLLlE');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398786', '1', '2', '1794826911328', '[{"type":"call.succeeded","at":1000,"record":"record-1","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"durationMs":1.5}]', NULL, '\x0000000000000000000000028bf83194c4316281b626bed01777160ad0f77b5c4f135b160b960bec3a1e0b', '1', 'HJO8AoVisSKZsm3hl5NryJoZaG7s7xT0ZAACExDwqQQ');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398787', '1', '3', '1794826911373', '[{"type":"call.claimed","at":1000,"record":"record-2","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write","run":"key of run-a","sequence":0}]', '\x000000000000000000000003258bed4158cdb60f33a818b9044f5b93414fb8463f667969cfdcd54b32b1344651660d5e00671af37b3810ad3436cf6a66888145c9dd81cddea37fe3acb5ce74c0bcaf93b0f156cbc2feddd50a47e5f91b3332133a4322d5c48307b66589db4f003f62e6c9077ec836da07940593d3d0bf69fa7ea822e3f2f31c0c268ae95aa0c74952040cb223fe1d920d5c686dcf9c619933ba83662074e9c11b344f9b72be19d5512d', '\x000000000000000000000004b9a7f780e649c819f1e8cd419c89cdf32c300de2e88191cecd77dabdb3f81b2f33b40ea8afcd19d71d8fe4924c7ed4b48754240cc3', '1', 'KXWsyPqUNNpDdiVb4OSNZNomroufQhu4DVN3aGUA23c');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398788', '1', '4', '1794826911379', '[{"type":"call.succeeded","at":1000,"record":"record-2","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"durationMs":1.5,"run":"key of run-a","sequence":1}]', NULL, '\x0000000000000000000000059e77e7b40e7a4e42128d44bd56e9d078037d0a15b8c569b372eea540837051', '1', 'Yct9dKbDKKpmZio3V1mn5Y_8rC6FfqpHmp3_xjBbrj4');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398789', '1', '5', '1794826911399', '[{"type":"call.parked","at":1000,"record":"record-3","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"approval":"approval-1","run":"record-3","sequence":0}]', '\x00000000000000000000000626a31bbdb0b801f2a649ccc8e1bdbca91f33198ee878e30eb852b0544957970a24636508e01562258d39b1e29ebf42a4d819fec70b00181b9e2820b21f4f1701c0101757b0641fb66322431a5a6310b2b8da807a0c9b1b9c5ce8ddeabfbde825abd2496c6d01db180285ea1081832afc14cd7592d3f8d16d5142182edab1f170140fc255b4840cc129ed55a403531608bcf6aeae4a3b1687351251b9835b3b22ae4d3e9293c679a5450c947dfe1c086349fbdf5613b5ee4c823b4691ba9e9690106222aa1c520d5dfe97cd65f2dda1857d0a5bd6bbcc0eac61c86ca9fcab8505c1a9c922038b484d5927041e772af0ab37a3160be0cbff53f8f85e31a73220d49b43a5e9896899da5d61a01f8be3a9c73cd140a4874baaaceefbd6da2b309c5f4af72c742897e59517ae60a8f4cc03b32138ffe9e4b69877694b456611f87d1313d67e19f29ba57af940063ef36bf3d4bd6b1764cd4cadad4f', '\x000000000000000000000007effc13527b8b767730d9a8b3c424c107d17203e2262b4a80eb391fe2b166e5961b7f79c1164bdc291f9f96688a882705ab581a104b', '1', '5KIsqSk1R2pAcpwcQ0Xi1yFr5GlK8y2XDOgLtJdFHFE');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398790', '1', '6', '1794826911465', '[{"type":"call.parked","at":1000,"record":"record-4","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"approval":"approval-2","run":"record-4","sequence":0}]', '\x000000000000000000000008b8e8662d785fb6285b6c936525b768e82c20ce3ca5a8d7da6b01fd82fdb0d9cd1483b544b73b2fafba10f8decd26246b53e9da700840ba217347019f6e8362aee499af3e95f2992663aba841a9c0aed3b0c14631819604646c53833c3d7fd95e6e90897b640c7d347f24ea0473d06cf682f1adafe75da44895a5617c7561b88168391cec63515635c255d831c93b256ce2478e0986d0005ea2fa654d99e4f02d6ee33beb53a8fa38c225098c84ea5a7e4c6bb9993d8389d600d38d22ea876986dbe9d2eda352137cc9a93134102d0e4da17ddab9397d2d28047457018236a6e89b0dcf966d8a693c0e54fe85ab96fd40b1af75ef69896d62b67d76449e366bec2f86a50bacde97c45eb489edba26e10476a98a066a257f18cf0c3034f3df1636c1150467a89a9e853bcfe593c6664516c6a04b126fcb1461b59b0569e822cb8e3703e8d0a3d086519b71b5db4522e7362d753a7fef408a8157', '\x000000000000000000000009fe5cd967550c5751f1f39ab7ad473c2eb01253ca5d1ebbb79061b874ebe8f1294e70a19b83e3013b72748ba91ff5b2f03700ac7682', '1', '5Qy1BQI6O777Gn0fu4SL57Lv8H1yacZMEI6e--N7FWU');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398791', '1', '7', '1794826911489', '[{"type":"approval.granted","at":2000,"approval":"approval-2","tenant":"default","record":"record-4","attempt":1,"tool":"Doorbell.Ring@0.1.0","by":"key:bob","reason":"sealed:bY4_7RXtbqnSir5bn31-S-TnE7bvuo6gDAVEki3pCPaPbFtHetJzNbPC_kIIq_eIr-0"}]', NULL, NULL, '0', 'saLle6qgmjLaf-Zpz0yPSEOPY0snKZIvoAmMiO5bT_I');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398792', '1', '8', '1794826911497', '[{"type":"vault.set","at":1000,"ref":"cred_1","tenant":"default","principal":"key:alice","provider":"google","kind":"token","by":"cli:ann","scopes":["mail.read"]}]', NULL, NULL, '0', 'WGZIkts0a6oWSui4_juDC7kwuxuvxiC52-E69Slhw5g');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398793', '1', '9', '1794826911504', '[{"type":"key.created","at":1000,"tenant":"default","principal":"key:alice","key":"key-1","by":"operator"}]', NULL, NULL, '0', 'IiM1mJTY8CFJvU3LqaTLoR70-nFopFKSDUmFlb3pZl0');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398794', '1', '10', '1794826911532', '[{"type":"source.added","at":1000,"source":"Weather","sourceType":"otc","by":"cli:ann"}]', NULL, NULL, '0', 'GDYf-sYw7hxR0le3173SEoy6iwuo069e-Hj-uEAuu40');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398795', '1', '11', '1794826911538', '[{"type":"call.claimed","at":1000,"record":"record-5","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write"}]', '\x00000000000000000000000a57992beecbc81fc200af20dd28333d621e530d1d39ec2522d164bb2cb35a8f21f9140d2e94226db5802147d320db0c2dbed30c182c11105ebd8718f4ccc88cdb0811795d83cfdee94a913d5bc5602d0473ece4582b34e9a3c817a4cbb6bdbe5d180e7c1448ff4829a279cf7b2c4c212ca811c7afeaac040b5b072793b05664ce4ab141e17eeffea7f7ecf83ea6ce6c2fa641c17d1f315a5fbdcee767ea62b0b3b8', '\x00000000000000000000000bfe1bd92921006d4edc85c6bc75029da736950176f051c0de3ee052f40e50873bd07f6f0f6aa0e60ae96b62623ec0cde4a94fd83f05', '1', 'TqlL5VVYHJWIRDSH4JH36I7s9Zlgt_-zZcGZ8-V5eKo');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398796', '1', '12', '1794826911540', '[{"type":"writer.stopped","at":1794826911539}]', NULL, NULL, '0', 'fdxkauCCQnbcbiE8And5M-woxJkC0P5KUKDOpaZSuDY');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065970176000', '2', '0', '1794826911773', '[{"type":"writer.started","at":1794826911773,"heads":[{"writer":"f66a7ff9-bb8e-48c3-84e1-64e90a9adacb","group":12,"link":"fdxkauCCQnbcbiE8And5M-woxJkC0P5KUKDOpaZSuDY"}]}]', NULL, NULL, '0', 'RzMMUYG_WPM3xi0aiN8u3CXpTSkumCPnfTKhL8yyFG4');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065970176001', '2', '1', '1794826911831', '[{"type":"call.ambiguous","at":5000,"record":"record-5","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"deadWriter":"f66a7ff9-bb8e-48c3-84e1-64e90a9adacb","run":"record-5","sequence":1}]', NULL, NULL, '0', 's24kFLKtsC_qsGUQPPtWqQFQpBj5q_Ks8zI1VBGbbHA');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065970176002', '2', '2', '1794826911842', '[{"type":"writer.stopped","at":1794826911837}]', NULL, NULL, '0', 'jjErxM3arS6C4u_HlodSrrt4idt4f31RCuFuMdWJpbw');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065986953216', '3', '0', '1794826912193', '[{"type":"writer.started","at":1794826912193,"heads":[{"writer":"32989963-dfb7-48cc-987d-978d27ab76e9","group":2,"link":"jjErxM3arS6C4u_HlodSrrt4idt4f31RCuFuMdWJpbw"}]}]', NULL, NULL, '0', '2kiejRRXng3GAoJjfjX2BSInUt8xMb2uPOoZwkEmOWo');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065986953217', '3', '1', '1794826912210', '[{"type":"writer.stopped","at":1794826912204}]', NULL, NULL, '0', 'YKGIKhxyK-HX5nygywP_IJJsqWDkc0mCGkyJQlrYs9I');
INSERT INTO journal_volumes (day, next) OVERRIDING SYSTEM VALUE VALUES ('684', '2');
INSERT INTO key_owners (tenant, name, created_at, ended_at, mac) OVERRIDING SYSTEM VALUE VALUES ('default', 'alice', '1000', NULL, '_keYBNIM36doBYxqNscDYBSxcm3qnvpWExSMGcd0kjo');
INSERT INTO keyed_requests (tenant, id, asked, writer, reply, expires_at) OVERRIDING SYSTEM VALUE VALUES ('default', 'request-1', 'asked', 'f66a7ff9-bb8e-48c3-84e1-64e90a9adacb', '\x549b562f78b4766a7359d0cda161c24f1eb8cc37de1f723202c4495cd322754a9f8feb4a7ad57112f5fd0e105e1141af7e6540fd1db199fac0d50db090e0bbdea6318effa5d4e48098ae068e', '9000000000000');
INSERT INTO meta (name, value) OVERRIDING SYSTEM VALUE VALUES ('schema_version', '1');
INSERT INTO meta (name, value) OVERRIDING SYSTEM VALUE VALUES ('key_check', 'fFpiPc6hjj1faoL9rIv2HgBmauYjzikajcQc35pELzs');
INSERT INTO meta (name, value) OVERRIDING SYSTEM VALUE VALUES ('key_epoch', '1');
INSERT INTO meta (name, value) OVERRIDING SYSTEM VALUE VALUES ('pin_epoch', '1');
INSERT INTO meta (name, value) OVERRIDING SYSTEM VALUE VALUES ('source_epoch', '1');
INSERT INTO pin_sources (source, revision) OVERRIDING SYSTEM VALUE VALUES ('files', '1');
INSERT INTO pins (source, native_name, local, served, accepted, waiting, mac) OVERRIDING SYSTEM VALUE VALUES ('files', 'read', 'read', '1', '{"hash":"hash","identity":{"origin":"https://tools.example"},"version":"1.0.0","by":"first sight","atMs":1000,"offered":{"nativeName":"read","description":"Reads.","inputSchema":{"type":"object"},"outputSchema":{},"policy":{},"binding":{}}}', NULL, 'vTFD4HhPUgFg9j1Z4Hahd3Lw8ASc5ynzX29SVHQw_00');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('1', '0', '1000', '{"type":"called","record":"record-2","attempt":1,"principal":"key:alice"}', '752065953398787', '0', '148');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('1', '1', '1000', '{"type":"returned","record":"record-2","attempt":1,"durationMs":2}', '752065953398787', '0', '148');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('2', '0', '1000', '{"type":"called","record":"record-3","attempt":1,"principal":"key:alice"}', '752065953398789', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('2', '1', '1000', '{"type":"interrupt.requested","record":"record-3","attempt":1,"approval":"approval-1","requiredScope":"approvals:respond","quorum":1,"tier":"write","timeoutMs":9000}', '752065953398789', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('2', '2', '1000', '{"type":"node.suspended","record":"record-3","attempt":1,"approval":"approval-1"}', '752065953398789', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('3', '0', '1000', '{"type":"called","record":"record-4","attempt":1,"principal":"key:alice"}', '752065953398790', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('3', '1', '1000', '{"type":"interrupt.requested","record":"record-4","attempt":1,"approval":"approval-2","requiredScope":"approvals:respond","quorum":1,"tier":"write","timeoutMs":9000}', '752065953398790', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('3', '2', '1000', '{"type":"node.suspended","record":"record-4","attempt":1,"approval":"approval-2"}', '752065953398790', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('3', '3', '2000', '{"type":"approval.granted","record":"record-4","approval":"approval-2","by":"prn_key:bob","reason":"sealed:bY4_7RXtbqnSir5bn31-S-TnE7bvuo6gDAVEki3pCPaPbFtHetJzNbPC_kIIq_eIr-0","granted":1,"required":1}', NULL, NULL, NULL);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('3', '4', '2000', '{"type":"interrupt.resolved","record":"record-4","attempt":1,"approval":"approval-2","action":"accept","by":"prn_key:bob","reason":"sealed:bY4_7RXtbqnSir5bn31-S-TnE7bvuo6gDAVEki3pCPaPbFtHetJzNbPC_kIIq_eIr-0"}', NULL, NULL, NULL);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('4', '0', '1000', '{"type":"called","record":"record-5","attempt":1,"principal":"key:alice"}', '752065953398795', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('4', '1', '5000', '{"type":"returned","record":"record-5","attempt":1,"code":"ambiguous"}', '752065953398795', '0', '145');
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) OVERRIDING SYSTEM VALUE VALUES ('1', 'key of run-a', 'default', 'key:alice', '2', '0', '1000', NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) OVERRIDING SYSTEM VALUE VALUES ('2', 'record-3', 'default', 'key:alice', '3', '1', '1000', NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) OVERRIDING SYSTEM VALUE VALUES ('3', 'record-4', 'default', 'key:alice', '5', '1', '2000', NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) OVERRIDING SYSTEM VALUE VALUES ('4', 'record-5', 'default', 'key:alice', '2', '0', '5000', NULL);
SELECT setval('runs_no_seq', max(no)) FROM runs;
INSERT INTO sources (key, options, added_by, added_at) OVERRIDING SYSTEM VALUE VALUES ('Weather', '\xf1f59987104db45c4de2320d624604eb715c9f97bc8ed51e5e0ea5b398255b6ff56a012191dc5628c2b39666209edff1152c4677fa5b33234b90d441dbac9dc94d4d163026086f27500ff3129c3f6630460abfd1eaca6605767c1f1bdc2dfe33', 'cli:ann', '1000');
INSERT INTO vault (no, ref, tenant, principal, user_id, provider, kind, version, data_key, value, scopes, expires_at, lease_until, created_at, updated_at) OVERRIDING SYSTEM VALUE VALUES ('1', 'cred_1', 'default', 'key:alice', 'ann', 'google', 'token', '1', '1', '\x090154d63030b47b36368d681d327c2fd4875a2269d028a4a35c4b1366f79de45a1369f6c8d24a', '["mail.read"]', NULL, '0', '1000', '1000');
SELECT setval('vault_no_seq', max(no)) FROM vault;
INSERT INTO vault_keys (no, tenant, wrapped, created_at) OVERRIDING SYSTEM VALUE VALUES ('1', 'default', '\x6503bc1f920d2d76c15011bedd8b649e917aa7a1118be0e150385f5e98a18689cfbc76057e3f53d28e608f37340ba0ced3532de0292f4aae182777df', '1000');
SELECT setval('vault_keys_no_seq', max(no)) FROM vault_keys;
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) OVERRIDING SYSTEM VALUE VALUES ('1', 'f66a7ff9-bb8e-48c3-84e1-64e90a9adacb', '1794826911273', '5000', '\x86a4893c4ff838ff4115b4641e7790305264e37406ed4e3cf1bf673c4fc7c0a44100220f08215eecbbc4a83550c2f767c566ceaf698f0140c94d853e', '0', '12', '2');
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) OVERRIDING SYSTEM VALUE VALUES ('2', '32989963-dfb7-48cc-987d-978d27ab76e9', '1794826911758', '1794826911837', '\x66acc5897597e0994aa227041839d38c407ec7035897ca0b9b3e4fb65be7f177e0eb6d73fbaf2d3ddc3b365ba92d9988f0f58f380e4dcf2f32ece97a', '0', '2', '3');
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) OVERRIDING SYSTEM VALUE VALUES ('3', 'f431bb2b-95ea-472d-8501-62cd36b0a7b2', '1794826912178', '1794826912204', '\x554bc0e2a4022e6870de86b0c9204592130cd179583cee2226ce19514a44d622964b329f520d62b823ef90091818c98e8fe184bb6ad1ebbc7d36ffec', '0', '-1', '0');
SELECT setval('writers_no_seq', max(no)) FROM writers;
