import type { RequestHeaders } from './codec-headers.ts'
import { JSON_TYPE, STREAM_TYPE } from './wire.ts'

export interface Accepted {
  readonly json: boolean
  readonly stream: boolean
}

/** What every client must send; looked at first, because it is what comes. */
const USUAL = 'application/json, text/event-stream'
const BOTH: Accepted = { json: true, stream: true }

/** MCP-14, T-5: lenient where the standard is silent; nothing said means both. */
export function readAccept({ accept }: RequestHeaders): Accepted {
  if (accept === undefined || accept === USUAL || accept.trim() === '') return BOTH
  const types = accept.split(',').map((type) => type.split(';', 1)[0]?.trim().toLowerCase())
  if (types.includes('*/*')) return BOTH
  return {
    json: types.includes(JSON_TYPE) || types.includes('application/*'),
    stream: types.includes(STREAM_TYPE) || types.includes('text/*'),
  }
}
