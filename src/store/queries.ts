import { queries as approval } from './calls/approvals.ts'
import { queries as callChange } from './calls/call-changes.ts'
import { queries as call } from './calls/calls.ts'
import { queries as recovery } from './calls/recovery.ts'
import { queries as run } from './calls/runs.ts'
import { queries as session } from './calls/sessions.ts'
import { queries as workflow } from './calls/workflows.ts'
import { queries as chain } from './chain.ts'
import { queries as consent } from './consents.ts'
import { queries as imports } from './imports.ts'
import { queries as journal } from './journal.ts'
import { queries as key } from './keys.ts'
import { queries as protocolState } from './protocol-state.ts'
import { queries as rowMac } from './row-mac.ts'
import { queries as meta } from './rows.ts'
import { queries as vault } from './vault.ts'
import { queries as verify } from './verify.ts'

/**
 * Every statement, from the module that uses it. Parameters are positional. Each text is one that SQLite and PostgreSQL
 * both understand; `max` and `min` of two values are functions that the schema of PostgreSQL adds.
 */
export const QUERIES = {
  ...approval,
  ...callChange,
  ...call,
  ...recovery,
  ...run,
  ...session,
  ...workflow,
  ...chain,
  ...consent,
  ...imports,
  ...journal,
  ...key,
  ...protocolState,
  ...rowMac,
  ...meta,
  ...vault,
  ...verify,
} as const

export type QueryName = keyof typeof QUERIES
