import { DatabaseSync } from 'node:sqlite'
import type { Outcome } from '#core/call'
import { claimedEvent } from '#core/journal/append'
import { CHAIN_START, linkOf } from '#core/journal/chain'
import type { CallState, NewCall } from '#core/ports/store'
import { deriveStoreKeys, newDataKey, Sealer, wrapDataKey } from '#store/encryption'
import { CommitGroup } from '#store/engine'
import { placeOf } from '#store/journal'
import { boundText, outcomeToText } from '#store/rows'
import { MIGRATIONS } from '#store/schema'

/** A call as schema version 1 has it. */
export interface OldCall {
  readonly call: NewCall
  readonly state: CallState
  readonly attempt: number
  readonly outcome: Outcome | undefined
}

const WRITER = 'old-writer'

/** Writes a database as the version before runs left it: no runs, and caller text of three parts. */
export function writeVersionOne(path: string, masterKey: Uint8Array, calls: readonly OldCall[]): void {
  const keys = deriveStoreKeys(masterKey)
  const dataKey = newDataKey()
  const sealer = new Sealer(dataKey)
  const database = new DatabaseSync(path)
  database.exec(`${MIGRATIONS[0]} PRAGMA user_version = 1;`)
  database.prepare("INSERT INTO meta (name, value) VALUES ('key_check', ?)").run(keys.checkBeforeMacs)
  database
    .prepare('INSERT INTO writers (no, id, started_at, ended_at, data_key) VALUES (1, ?, 1, 2, ?)')
    .run(WRITER, wrapDataKey(keys.wrap, dataKey, WRITER))
  const group = new CommitGroup({ id: 1, writer: 1, keys })
  for (const old of calls) insertCall(database, group, old)
  const callers = sealer.seal(group.callers, placeOf('callers', WRITER, 0))
  const payload = sealer.seal(group.payload, placeOf('payload', WRITER, 0))
  const { eventsJson } = group
  const linked = { id: 1, writer: WRITER, group: 0, atMs: 1_000, eventsJson, callers }
  database
    .prepare(
      'INSERT INTO commit_groups (id, writer, n, at, events, callers, payload, live, link) VALUES (1, 1, 0, 1000, ?, ?, ?, ?, ?)',
    )
    .run(eventsJson, callers, payload, group.live, linkOf(keys.chain, CHAIN_START, linked))
  database.close()
}

function insertCall(
  database: DatabaseSync,
  group: CommitGroup,
  { call, state, attempt, outcome }: OldCall,
): void {
  const { record, callId, traceId, userId } = call
  const caller = group.addCaller(boundText(record, JSON.stringify([callId, traceId, userId ?? null])))
  const input = group.addPayload(boundText(record, call.inputJson))
  group.addReference()
  const end = outcome === undefined ? undefined : group.addPayload(boundText(record, outcomeToText(outcome)))
  if (end !== undefined) group.addReference()
  group.append(claimedEvent(call, attempt, { atMs: call.atMs, parent: undefined }))
  const values = {
    record,
    tenant: call.tenant,
    principal: call.principal,
    tool: call.tool,
    definition: call.definitionHash,
    tier: call.tier,
    replay: call.replay,
    rerun_until: call.rerunUntilMs,
    fingerprint: call.fingerprint,
    state,
    attempt,
    writer: 1,
    created_at: call.atMs,
    finished_at: end === undefined ? null : 2_000,
    claim_group: 1,
    caller_at: caller.at,
    caller_length: caller.length,
    input_at: input.at,
    input_length: input.length,
    outcome_group: end?.group ?? null,
    outcome_at: end?.at ?? null,
    outcome_length: end?.length ?? null,
  }
  const columns = Object.keys(values)
  database
    .prepare(`INSERT INTO calls (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`)
    .run(...Object.values(values))
}
