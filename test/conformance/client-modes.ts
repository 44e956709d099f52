import { CLIENT_DIALECTS, type ClientDialect } from '#protocols/otc/codec-client'

/** A configuration of the client: where it connects, and whether its dialect is pinned. */
export interface ClientMode {
  readonly name: string
  readonly base: '' | '/uts'
  readonly dialect?: ClientDialect
}

/** Every dialect that the client supports, and both dialects that it can detect here. */
export const CLIENT_MODES: readonly ClientMode[] = [
  { name: 'detected', base: '' },
  { name: 'detected at /uts', base: '/uts' },
  ...CLIENT_DIALECTS.map((dialect): ClientMode => {
    return { name: dialect, base: dialect === 'uts' ? '/uts' : '', dialect }
  }),
]

/** Vectors about requests that this client never makes, and why. */
export const NEVER_SENT: ReadonlyMap<string, string> = new Map([
  ['S08', 'a client names only versions it speaks'],
  ['S16', 'a client names only versions it speaks'],
  ['S20', 'a client sends `input` and never `inputs` (C-05)'],
  ['S26', 'a client names only versions it speaks'],
  ['S28', 'a client sends whole requests'],
  ['S29', 'a client sends whole JSON'],
  ['S53', 'a call without a tool id is a `config` failure before anything is sent'],
  ['S61', 'inputs of a call are objects, by type'],
  ['S70', 'a client sends authorization items with both members'],
])

/** Vectors about one family of paths; dialects of the other family get the opposite answer (C-15). */
const EXECUTE_ONLY = new Set(['S38'])
const NEVER_EXECUTE = new Set(['S46'])

export function canPlay(vectorId: string, { dialect }: ClientMode): boolean {
  if (NEVER_SENT.has(vectorId)) return false
  return dialect === 'execute' ? !NEVER_EXECUTE.has(vectorId) : !EXECUTE_ONLY.has(vectorId)
}
