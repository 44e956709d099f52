CREATE FUNCTION max(a BIGINT, b BIGINT) RETURNS BIGINT IMMUTABLE PARALLEL SAFE LANGUAGE sql RETURN greatest(a, b);
CREATE FUNCTION min(a BIGINT, b BIGINT) RETURNS BIGINT IMMUTABLE PARALLEL SAFE LANGUAGE sql RETURN least(a, b);
CREATE TABLE meta (
  name TEXT COLLATE "C" PRIMARY KEY,
  value TEXT COLLATE "C" NOT NULL
);

CREATE TABLE key_generations (
  generation BIGINT PRIMARY KEY,
  state TEXT COLLATE "C" NOT NULL,
  floor BIGINT NOT NULL,
  wrapped BYTEA NOT NULL,
  closing BYTEA,
  created_at BIGINT NOT NULL
);

CREATE TABLE writer_keys (
  writer BIGINT PRIMARY KEY,
  holds TEXT COLLATE "C" NOT NULL,
  knows BIGINT NOT NULL,
  uses BIGINT NOT NULL
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
INSERT INTO api_keys (no, id, digest, tenant, name, label, scopes, roles, tools, created_at, expires_at, revoked_at, used_at, mac) OVERRIDING SYSTEM VALUE VALUES ('1', 'key-1', 'DIGEST-1', 'default', 'alice', 'laptop', '["mail:*"]', '[]', NULL, '1000', NULL, NULL, NULL, '1.1rBUaXenC-BXzQt7iQ_hMwfHFSFY4WAcjCtqSdb4P-0');
SELECT setval('api_keys_no_seq', max(no)) FROM api_keys;
INSERT INTO approval_decisions (approval, principal, action, reason, at, n, mac) OVERRIDING SYSTEM VALUE VALUES ('approval-2', 'key:bob', 'grant', 'sealed:AAAAAQJ1xuUkuRrAHa-Ok7bsqoyiB6q1wM2dEUshXbaJ9ahCtCAnHtsHguKwbzKHDYAadQLk', '2000', '0', '1.DSnfr2yyAXA_0jm05YWBtg-kCNVNG0gV40DzPPu-amk');
INSERT INTO approvals (no, id, tenant, record, attempt, principal, tool, tool_id, tier, definition, run, own_session, binding, subject_group, subject_at, subject_length, quorum, required_scope, self_approval, bypass, state, created_at, expires_at, decided_at, mac) OVERRIDING SYSTEM VALUE VALUES ('1', 'approval-1', 'default', 'record-3', '1', 'key:alice', 'Doorbell.Ring@0.1.0', 'openwop:Doorbell.Ring', 'write', 'definition-1', 'record-3', NULL, 'binding-1', '752065953398789', '145', '184', '1', 'approvals:respond', '0', '0', 'pending', '1000', '10000', NULL, '1.SLIxUizaOAwmC0OgNFmiBCompWwae7d-DCY-qds9kJE');
INSERT INTO approvals (no, id, tenant, record, attempt, principal, tool, tool_id, tier, definition, run, own_session, binding, subject_group, subject_at, subject_length, quorum, required_scope, self_approval, bypass, state, created_at, expires_at, decided_at, mac) OVERRIDING SYSTEM VALUE VALUES ('2', 'approval-2', 'default', 'record-4', '1', 'key:alice', 'Doorbell.Ring@0.1.0', 'openwop:Doorbell.Ring', 'write', 'definition-1', 'record-4', NULL, 'binding-1', '752065953398790', '145', '184', '1', 'approvals:respond', '0', '0', 'granted', '1000', '302000', '2000', '1.QRj7Hs3jwRU17vPu0lNJKiInvapHBnXZ2PGcVx-ennQ');
SELECT setval('approvals_no_seq', max(no)) FROM approvals;
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) OVERRIDING SYSTEM VALUE VALUES ('1', 'record-1', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', '0', 'fingerprint-1', 'succeeded', '1', '1', '1000', '1000', '752065953398785', '0', '145', '0', '37', '752065953398786', '0', '15', NULL, NULL, NULL, '0', '0', NULL, NULL, NULL, NULL, '0', NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) OVERRIDING SYSTEM VALUE VALUES ('2', 'record-2', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', '0', 'fingerprint-1', 'succeeded', '1', '1', '1000', '1000', '752065953398787', '0', '148', '0', '37', '752065953398788', '0', '15', NULL, NULL, NULL, '0', '0', 'key of run-a', NULL, NULL, NULL, '0', NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) OVERRIDING SYSTEM VALUE VALUES ('3', 'record-3', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', '0', 'fingerprint-1', 'parked', '1', '1', '1000', NULL, '752065953398789', '0', '145', '0', '37', NULL, NULL, NULL, NULL, NULL, NULL, '0', '0', 'record-3', NULL, NULL, NULL, '0', NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) OVERRIDING SYSTEM VALUE VALUES ('4', 'record-4', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', '0', 'fingerprint-1', 'parked', '1', '1', '1000', NULL, '752065953398790', '0', '145', '0', '37', NULL, NULL, NULL, NULL, NULL, NULL, '0', '0', 'record-4', NULL, NULL, NULL, '0', NULL);
INSERT INTO calls (no, record, tenant, principal, tool, definition, tier, replay, rerun_until, fingerprint, state, attempt, writer, created_at, finished_at, claim_group, caller_at, caller_length, input_at, input_length, outcome_group, outcome_at, outcome_length, late_group, late_at, late_length, cancel_requested, expired, run, session, parent, root, resumable, waits_for) OVERRIDING SYSTEM VALUE VALUES ('5', 'record-5', 'default', 'key:alice', 'Doorbell.Ring@0.1.0', 'definition-1', 'write', 'non-deterministic', '0', 'fingerprint-1', 'ambiguous', '1', '1', '1000', NULL, '752065953398795', '0', '145', '0', '37', NULL, NULL, NULL, NULL, NULL, NULL, '0', '0', 'record-5', NULL, NULL, NULL, '0', NULL);
SELECT setval('calls_no_seq', max(no)) FROM calls;
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398784', '1', '0', '1794827214081', '[{"type":"writer.started","at":1794827214081,"heads":[]}]', NULL, NULL, '0', '1.DXOtQcHdjjgORFhjbewiR4Jj0snlE_2x2JKEmLyQoYw');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398785', '1', '1', '1794827214110', '[{"type":"call.claimed","at":1000,"record":"record-1","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write"}]', '\x000000010000000000000000d0938fe25d06a328e311c36c0fc1b11ff737ef1cc1ed63dd00fc1ad5c57f06d065626692e4179dca52fe0834b49dc65511601aa4ea5460f8c7f8ec6e14150fc732e99f83ae86aa0352232b9dd62954e0e3adf47fac99fea43e3150e543678f083849988a3513cef96a7c92454e0437fb6a7106937b5af8340531448b9a854769af582d5601145d34e6f6829b097734f31cf27dc770655f8a034fc65a946dd105dc', '\x0000000100000000000000014acbbdd02ae2bd776efe3211d640137a2cba618f007db7722f113a3433482e75d2942b88af34a363389aacff13f50333389194c883', '1', '1.CIgHKNeDgmRhsEolUGw_woNNcj0mavk62g8qulC6pUk');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398786', '1', '2', '1794827214133', '[{"type":"call.succeeded","at":1000,"record":"record-1","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"durationMs":1.5}]', NULL, '\x000000010000000000000002a38e9dd8ca82fc5ce8a5d00b9e6739b6c9478bec18adaf206c61a293481960', '1', '1.pxpr6DTKrALdrSSX9WC-6WHsXuDWXWOYX_9P9ysAL6o');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398787', '1', '3', '1794827214178', '[{"type":"call.claimed","at":1000,"record":"record-2","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write","run":"key of run-a","sequence":0}]', '\x0000000100000000000000038664732ed0996a4488d58df4702ea09a2f9598bf32746931d33e979bfeca7ee735ed79a64a58e1889647d881e1eb714f18d51879e0225bcd7d9f199f29680a2a23e6832abf8b30bbc6b077036bd56fe62b785ca0a65c904bf561fc0d9e5065cc7fe5b67ec1777cb8eeaf707c05fbbd110df066b404210c623f8d435fbaf2b375936ef07442ad3b40d6eaea73f184ae735f266078fda7b07feab6c3ae0c7988bd95524fdc', '\x0000000100000000000000043a99893bae68cf44f797881b38ba4a7ae3711a4eba677753299f561e89b6ebc1047d77859056cfb8f8c3c4ddb6faec2b1ed7026cff', '1', '1.dEPMu_7zHs7_5dwVwb5WzqtN2RPDZXJyKEmlPl5z7Hc');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398788', '1', '4', '1794827214208', '[{"type":"call.succeeded","at":1000,"record":"record-2","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"durationMs":1.5,"run":"key of run-a","sequence":1}]', NULL, '\x000000010000000000000005aaae41035ce3331ee4732720a61f635fe998ab25c9a16b181d67dbe3fdc5e1', '1', '1.skn_PbOoFaGt5rky61xwZv3A2Z3JNJbxM51NcXwelVo');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398789', '1', '5', '1794827214307', '[{"type":"call.parked","at":1000,"record":"record-3","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"approval":"approval-1","run":"record-3","sequence":0}]', '\x0000000100000000000000066c3a725ec7d6b012c0559b4b80eca1580d18a025a0ac23c624867389f2b757d6386615a19cd08fa2fac69cf75f239bae910fb64ee81a762bd32d5270292e8667bbe5ff63b986e582ea21f87fbe5b9104bb46b239e0edfc09bfa3c1a852a95d69ad9e2ff73920647de8b67f23572e317e6b5413cc623ba292f8d8cbcc105e064e7e3817498f3f01b6035e0c9a2914da07825bf70a91cf5e68cc4ea9482108e62c3bc91b8e82202ed0dd70e953bbd8da4dd0c73dffb1c5c09221e4c3294594bae65d84621482c2013599ddf988e0fc88e1f84a9bbabbb5909c5177d534b5facb772a467720eba46216c740a4bb92c370c0c97af26439d59d6162abdee4fc9209a06c0b6dab26e87a47f4c9f4913bc13662d1fe01b929c0ce2c0f03fe1c4b3a84754e9689ef10d0f47b6232a16a421ed1b6178ad8a6501067a1efbc7de4dc9cd06ed0d5861ede0e3ae991c4ee003510969c5d90489fe08c553941', '\x00000001000000000000000747c9d3423e1d0dbc9be31d9e869d2a1597accd7bffd170887b23d3cfd818f4bebe2222e6db8993e2ba266b4e2a4ba2c0dc1de2d13e', '1', '1.bpFOPJUFu2FJ-Ze3-wrdF4xbBPnvcwNey_bY89JlO3w');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398790', '1', '6', '1794827214478', '[{"type":"call.parked","at":1000,"record":"record-4","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"approval":"approval-2","run":"record-4","sequence":0}]', '\x0000000100000000000000083f96238551b36e7defa1c38f4a8dcd13f59e88eedfbb4eb13474147f7d640267e2a93b2e4bb0a72a6895878a92376aa213c29c16920a1df01bd4d300232f3067e557f5785df2ffc696c690debacc921522618036d7f32a46e91394ebf6200ba5a09f3fc7c6fe2d065dd40371f97b58224319ba787044a4ade1b1c02d5331bb6e0954d64c82f6a59f335a50252fabbac9b4538bbb9adf4f8a2676b87db9991b8586993ac4ebcadd025a19135b12ac6c93a550128228463c741a20c76cf3f5c4fd0a59796ad874f34c0cc39f55ecef394ee2ba47c3a71dcb4786452c2537b86779f7b6829cd5a1a99510f247616ec500d39cc54754e68bf6e0724a8cc8501b56efed29474a3fd43d353193a72f28d22df1a33ef535a3c45e2a84c3a04efeefbea8e6ce3bc7e4852c8179edfedae171bfb8049667fcbd5d76eab2ed75206dd290abc5f4397a5205efbd7483ff6e092cfe78ff0aeafb79853c09e6', '\x0000000100000000000000099fe656d72e02feccdcb4163f7edb627973988da6cdf4939c4417ecb7f6a1d73028e9f2edec48be7515c10afee04e9a6448d202fbb9', '1', '1.n4N7veReKTEtj-UqefAtAJXuk8gbSi23NF0LBesgIRo');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398791', '1', '7', '1794827214587', '[{"type":"approval.granted","at":2000,"approval":"approval-2","tenant":"default","record":"record-4","attempt":1,"tool":"Doorbell.Ring@0.1.0","by":"key:bob","reason":"sealed:AAAAAQJ1xuUkuRrAHa-Ok7bsqoyiB6q1wM2dEUshXbaJ9ahCtCAnHtsHguKwbzKHDYAadQLk"}]', NULL, NULL, '0', '1.KJCDjIVRwV8EEp6gPrBdL2kex2TqoywzYMRBuqTuMYE');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398792', '1', '8', '1794827214641', '[{"type":"vault.set","at":1000,"ref":"cred_1","tenant":"default","principal":"key:alice","provider":"google","kind":"token","by":"cli:ann","scopes":["mail.read"]}]', NULL, NULL, '0', '1.lFo4g1i9Aa2cB6M_r8h4qmVgMz36Efjjtw1R5G7b7TE');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398793', '1', '9', '1794827214717', '[{"type":"key.created","at":1000,"tenant":"default","principal":"key:alice","key":"key-1","by":"operator"}]', NULL, NULL, '0', '1.pcWliBQJzYJPLGM5Sc4iqwqAFTOoP6ovRsiyYFvZz6k');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398794', '1', '10', '1794827214764', '[{"type":"source.added","at":1000,"source":"Weather","sourceType":"otc","by":"cli:ann"}]', NULL, NULL, '0', '1.GusJPfRnHeYt7OlamPib3OFPW3LpHt--KGr6czxajwU');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398795', '1', '11', '1794827214834', '[{"type":"call.claimed","at":1000,"record":"record-5","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"tier":"write"}]', '\x00000001000000000000000adf0e010592b23c5eaad040a85467003ad28f4645713c2c2660b9315a09a1c1f0270d261ed6288867d1769a98ca735391eda89ac5cc47c9d8574537fcdf4915b1dbf2e43f2ff16e59528fd0482428d840ab19ab5a0d0c8cd2c6694ab519921838dbe0b64f402fc2f4e94a909adf2e4dc6261858907f217cfba5ec1f22eef2bbd08c7248ada140332e502e2876a1c64fd857b42acbe3fc5fbdefef0c89cae58bb9c8', '\x00000001000000000000000b724d1cca2915cc210787f0266b8e883268319cee1871d4d28dfcd19cedfe71fcfd2baeb2acc7f506779c2a2647428e9839c3b1bd12', '1', '1.wP_KDj0KZbNfOBO72E072C-qW7yxRFUxQGt6duQYnKY');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065953398796', '1', '12', '1794827214853', '[{"type":"writer.stopped","at":1794827214850}]', NULL, NULL, '0', '1.77mSZgld6yrQEETBQCs-JOPVWpuZAs_y1XVpTLuaZLk');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065970176000', '2', '0', '1794827215130', '[{"type":"writer.started","at":1794827215130,"heads":[{"writer":"7949f3a6-99d0-440d-9b23-0fde989f5e37","group":12,"link":"1.77mSZgld6yrQEETBQCs-JOPVWpuZAs_y1XVpTLuaZLk"}]}]', NULL, NULL, '0', '1.lH49D1M1aYBMA6TXjqSpO7Ab5QmdeQ-49D78b0jLRYs');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065970176001', '2', '1', '1794827215210', '[{"type":"call.ambiguous","at":5000,"record":"record-5","tenant":"default","principal":"key:alice","tool":"Doorbell.Ring@0.1.0","attempt":1,"deadWriter":"7949f3a6-99d0-440d-9b23-0fde989f5e37","run":"record-5","sequence":1}]', NULL, NULL, '0', '1.I6SZim1wJZ4G3Mlmh6FA83QpVNxILRb56_35uW9GQt4');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065970176002', '2', '2', '1794827215260', '[{"type":"writer.stopped","at":1794827215242}]', NULL, NULL, '0', '1.iFVlmY-f12dmkA8kKOz1eiNrEtA-CcfS1k749PGBMmA');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065986953216', '3', '0', '1794827215807', '[{"type":"writer.started","at":1794827215807,"heads":[{"writer":"f3e55aba-c1d3-4f7c-997d-d23d12766970","group":2,"link":"1.iFVlmY-f12dmkA8kKOz1eiNrEtA-CcfS1k749PGBMmA"}]}]', NULL, NULL, '0', '1.hzYuKEp2C23sAP2pCMAsH6m4J7pU28A-Xmrwi2Io_6I');
INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) OVERRIDING SYSTEM VALUE VALUES ('752065986953217', '3', '1', '1794827215839', '[{"type":"writer.stopped","at":1794827215830}]', NULL, NULL, '0', '1.oYdfNCT399mi5REO2J-q7UDHUXlksA8bSwU9SDfIkOU');
INSERT INTO journal_volumes (day, next) OVERRIDING SYSTEM VALUE VALUES ('684', '2');
INSERT INTO key_generations (generation, state, floor, wrapped, closing, created_at) OVERRIDING SYSTEM VALUE VALUES ('1', 'current', '1', '\x8c554e66205a5706ec1dbe32dbfd0d6ca23797a56649febab0b041be3a1539d7849356570a37ff6d65aaa1f10faec2ecc74020678163fa9159b632b2', NULL, '1794827212925');
INSERT INTO key_owners (tenant, name, created_at, ended_at, mac) OVERRIDING SYSTEM VALUE VALUES ('default', 'alice', '1000', NULL, '1.Rd0ybmsj20nqnNn2Vfz5b0_7vQjBTPt4xdbgFe_Y8uk');
INSERT INTO keyed_requests (tenant, id, asked, writer, reply, expires_at) OVERRIDING SYSTEM VALUE VALUES ('default', 'request-1', 'asked', '7949f3a6-99d0-440d-9b23-0fde989f5e37', '\x00000001726e1d5c526c8a1760a5bdb746f604c2a0df7e9f5729a6d2cfd6e13cde634f05b948570bb9c09202ec4fd33ec3c3303731d877ecb5eefe81ac92bcf29e90ecdb435e27b8c8605a463ead0687', '9000000000000');
INSERT INTO meta (name, value) OVERRIDING SYSTEM VALUE VALUES ('schema_version', '1');
INSERT INTO meta (name, value) OVERRIDING SYSTEM VALUE VALUES ('identity', '_8it4Q2es97pz0q_gtncxKUP6yHtKuDRIZs6AOqnI2zkTZW2MbzT2d-rXgeMjrUauD_mEkKVReuuxNrr');
INSERT INTO meta (name, value) OVERRIDING SYSTEM VALUE VALUES ('key_epoch', '1');
INSERT INTO meta (name, value) OVERRIDING SYSTEM VALUE VALUES ('pin_epoch', '1');
INSERT INTO meta (name, value) OVERRIDING SYSTEM VALUE VALUES ('source_epoch', '1');
INSERT INTO pin_sources (source, revision) OVERRIDING SYSTEM VALUE VALUES ('files', '1');
INSERT INTO pins (source, native_name, local, served, accepted, waiting, mac) OVERRIDING SYSTEM VALUE VALUES ('files', 'read', 'read', '1', '{"hash":"hash","identity":{"origin":"https://tools.example"},"version":"1.0.0","by":"first sight","atMs":1000,"offered":{"nativeName":"read","description":"Reads.","inputSchema":{"type":"object"},"outputSchema":{},"policy":{},"binding":{}}}', NULL, '1.QkuGC1xt6WfLSQvluryNzVSEc73WzvgZjbzhOgZFPAs');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('1', '0', '1000', '{"type":"called","record":"record-2","attempt":1,"principal":"key:alice"}', '752065953398787', '0', '148');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('1', '1', '1000', '{"type":"returned","record":"record-2","attempt":1,"durationMs":2}', '752065953398787', '0', '148');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('2', '0', '1000', '{"type":"called","record":"record-3","attempt":1,"principal":"key:alice"}', '752065953398789', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('2', '1', '1000', '{"type":"interrupt.requested","record":"record-3","attempt":1,"approval":"approval-1","requiredScope":"approvals:respond","quorum":1,"tier":"write","timeoutMs":9000}', '752065953398789', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('2', '2', '1000', '{"type":"node.suspended","record":"record-3","attempt":1,"approval":"approval-1"}', '752065953398789', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('3', '0', '1000', '{"type":"called","record":"record-4","attempt":1,"principal":"key:alice"}', '752065953398790', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('3', '1', '1000', '{"type":"interrupt.requested","record":"record-4","attempt":1,"approval":"approval-2","requiredScope":"approvals:respond","quorum":1,"tier":"write","timeoutMs":9000}', '752065953398790', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('3', '2', '1000', '{"type":"node.suspended","record":"record-4","attempt":1,"approval":"approval-2"}', '752065953398790', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('3', '3', '2000', '{"type":"approval.granted","record":"record-4","approval":"approval-2","by":"prn_key:bob","reason":"sealed:AAAAAQJ1xuUkuRrAHa-Ok7bsqoyiB6q1wM2dEUshXbaJ9ahCtCAnHtsHguKwbzKHDYAadQLk","granted":1,"required":1}', NULL, NULL, NULL);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('3', '4', '2000', '{"type":"interrupt.resolved","record":"record-4","attempt":1,"approval":"approval-2","action":"accept","by":"prn_key:bob","reason":"sealed:AAAAAQJ1xuUkuRrAHa-Ok7bsqoyiB6q1wM2dEUshXbaJ9ahCtCAnHtsHguKwbzKHDYAadQLk"}', NULL, NULL, NULL);
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('4', '0', '1000', '{"type":"called","record":"record-5","attempt":1,"principal":"key:alice"}', '752065953398795', '0', '145');
INSERT INTO run_events (run, sequence, at, fact, caller_group, caller_at, caller_length) OVERRIDING SYSTEM VALUE VALUES ('4', '1', '5000', '{"type":"returned","record":"record-5","attempt":1,"code":"ambiguous"}', '752065953398795', '0', '145');
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) OVERRIDING SYSTEM VALUE VALUES ('1', 'key of run-a', 'default', 'key:alice', '2', '0', '1000', NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) OVERRIDING SYSTEM VALUE VALUES ('2', 'record-3', 'default', 'key:alice', '3', '1', '1000', NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) OVERRIDING SYSTEM VALUE VALUES ('3', 'record-4', 'default', 'key:alice', '5', '1', '2000', NULL);
INSERT INTO runs (no, key, tenant, principal, next, open, touched_at, ended_at) OVERRIDING SYSTEM VALUE VALUES ('4', 'record-5', 'default', 'key:alice', '2', '0', '5000', NULL);
SELECT setval('runs_no_seq', max(no)) FROM runs;
INSERT INTO sources (key, options, added_by, added_at) OVERRIDING SYSTEM VALUE VALUES ('Weather', '\x00000001638959cd383f1ca7f8294095eff10c8dca5885ec3237721883739e8d1468aeb526676322a48fc6483ba43e36dcdd1fd2d68e6e6a84a54c4ad50d163955b2fc9e5445613b16ba47c409ff767d3f3b20b289939089fcc2ff760c3ce6967d498dd5', 'cli:ann', '1000');
INSERT INTO vault (no, ref, tenant, principal, user_id, provider, kind, version, data_key, value, scopes, expires_at, lease_until, created_at, updated_at) OVERRIDING SYSTEM VALUE VALUES ('1', 'cred_1', 'default', 'key:alice', 'ann', 'google', 'token', '1', '1', '\xbd27b5645cd35a0af32e84ae01ff7b782ade28c2eefb41cfb3cd474f79a59f629d69372aae93e2', '["mail.read"]', NULL, '0', '1000', '1000');
SELECT setval('vault_no_seq', max(no)) FROM vault;
INSERT INTO vault_keys (no, tenant, wrapped, created_at) OVERRIDING SYSTEM VALUE VALUES ('1', 'default', '\x0000000117dd137bafc9869511b73ad30504d507c2fd9afaeb7347a0400e9e56008cdee137571baf1183a82d74966a8e2809d1761f37da2d5a4956a68fc55c99', '1000');
SELECT setval('vault_keys_no_seq', max(no)) FROM vault_keys;
INSERT INTO writer_keys (writer, holds, knows, uses) OVERRIDING SYSTEM VALUE VALUES ('1', 'cSEzCWkAaghl', '1', '1');
INSERT INTO writer_keys (writer, holds, knows, uses) OVERRIDING SYSTEM VALUE VALUES ('2', 'cSEzCWkAaghl', '1', '1');
INSERT INTO writer_keys (writer, holds, knows, uses) OVERRIDING SYSTEM VALUE VALUES ('3', 'cSEzCWkAaghl', '1', '1');
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) OVERRIDING SYSTEM VALUE VALUES ('1', '7949f3a6-99d0-440d-9b23-0fde989f5e37', '1794827214060', '5000', '\x0000000169fb88470fd8f7e9a1978b371c953ff55e4619dc89b3024c7e8093f491f0ace8d39f9cb8795ff8358d8a71c07889ecc841eee97c3903e6650ddcb3a8', '0', '12', '2');
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) OVERRIDING SYSTEM VALUE VALUES ('2', 'f3e55aba-c1d3-4f7c-997d-d23d12766970', '1794827215114', '1794827215242', '\x000000018062407a2642d77d57c82984a2957850b2e8a38fd939656f5fb9c7fccb8e63e035ec36022c447f5459efd3a5ecb98255ba54071939d563ea0f36997c', '0', '2', '3');
INSERT INTO writers (no, id, started_at, ended_at, data_key, lease_until, recorded_n, recorded_by) OVERRIDING SYSTEM VALUE VALUES ('3', '0a0981b1-fc5f-4cd7-a289-646345673001', '1794827215790', '1794827215830', '\x00000001aedb12564fe9259e40efe681765966a6c3e1c7e87d6b71af13974d050beffa54f55ca29257a138613f0ff30d1f9dcdae1d14f540607f22f7d7a54adb', '0', '-1', '0');
SELECT setval('writers_no_seq', max(no)) FROM writers;
