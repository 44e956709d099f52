import { fault } from '#core/errors'
import type { JsonObject } from '#core/json'
import type { Dialect } from './wire.ts'

const WRAPPER = new Set(['$schema', 'request'])
const CALL = new Set(['tool_id', 'call_id', 'trace_id', 'input', 'context'])

/** Members a call may have in each dialect when unknown ones are refused (T-23, C-32). */
const MEMBERS = {
  proto: new Set(['$schema', 'run_id', 'execution_id', 'created_at', 'tool', 'inputs', 'input', 'context']),
  execute: new Set(['execution_id', ...CALL, 'inputs']),
  'rfc-call': new Set([...CALL, 'inputs']),
  'otc-1.0': new Set([...CALL, 'inputs']),
  'oxp-1.0': new Set([...CALL, 'inputs']),
  'oxp-header': new Set(['$schema', ...CALL]),
  uts: new Set(['$schema', ...CALL, 'execution_id', 'user_id']),
} satisfies Record<Dialect, ReadonlySet<string>>

/** The published request schemas are closed while their prose is open: strict mode follows the schemas. */
export function refuseUnknownMembers(dialect: Dialect, body: JsonObject, call: JsonObject): void {
  if (body !== call) refuseOthers(WRAPPER, body)
  refuseOthers(MEMBERS[dialect], call)
}

function refuseOthers(known: ReadonlySet<string>, object: JsonObject): void {
  const unknown = Object.keys(object).find((member) => !known.has(member))
  if (unknown === undefined) return
  throw fault(
    'request_invalid',
    `Unknown member ${JSON.stringify(unknown)}; this server accepts only ${[...known].join(', ')} here.`,
  )
}
