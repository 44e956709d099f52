import { tables as approvals } from './calls/approvals.ts'
import { tables as calls } from './calls/calls.ts'
import { tables as runs } from './calls/runs.ts'
import { tables as sessions } from './calls/sessions.ts'
import { tables as chain } from './chain.ts'
import { tables as consents } from './consents.ts'
import { tables as imports } from './imports.ts'
import { tables as keys } from './keys.ts'
import { tables as protocolState } from './protocol-state.ts'
import { tables as meta } from './rows.ts'
import { tables as vault } from './vault.ts'

/**
 * From nothing to the tables of today, one step per version. Once a version is released its step never changes again: a
 * change of the tables is then a step of its own, at the end.
 */
export const MIGRATIONS: readonly string[] = [
  [meta, chain, calls, runs, sessions, approvals, consents, vault, keys, imports, protocolState].join(''),
]
