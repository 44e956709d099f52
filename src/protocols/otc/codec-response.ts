import type { CallReply, Outcome } from '#core/call'
import { type EncodeOptions, encodeToolError } from './codec-error.ts'
import type { Dialect } from './wire.ts'

export interface ResultForm {
  readonly dialect: Dialect
  readonly schemaId: string
  /** When the call ended; only the March draft publishes it. */
  readonly finishedAtMs: number
}

/** One result in pieces of JSON text: the value was serialised once and is never parsed again. */
interface ResultText {
  readonly schema: string
  readonly id: string
  /** `"duration":…,`, or nothing where nobody knows it (OTC-89). */
  readonly duration: string
  readonly success: string
  /** `"value":…` or `"error":…`, never both (OTC-92). */
  readonly ending: string
  /** `,"output":{…}`, or nothing for a result the March drafts cannot express (C-19). */
  readonly output: string
  readonly finishedAtMs: number
}

/** The 200 body of each dialect (§3.1). */
const BODIES = {
  proto: (text) =>
    `{"$schema":${text.schema},"execution_id":${text.id},${text.duration}"finished_at":"${new Date(text.finishedAtMs).toISOString()}","success":${text.success},"output":{${text.ending}}}`,
  execute: (text) => {
    const result = `"execution_id":${text.id},${text.duration}"success":${text.success}${text.output}`
    return `{"$schema":${text.schema},${result},"response":{${result}}}`
  },
  'rfc-call': (text) =>
    `{"$schema":${text.schema},"call_id":${text.id},${text.duration}"success":${text.success}${text.output},"result":${plain(text)}}`,
  'otc-1.0': (text) => `{"$schema":${text.schema},"result":${plain(text)}}`,
  'oxp-1.0': (text) => `{"$schema":${text.schema},"result":${plain(text)}}`,
  'oxp-header': (text) => plain(text),
  uts: (text) => `{"success":${text.success},"call_id":${text.id},${text.ending}}`,
} satisfies Record<Dialect, (text: ResultText) => string>

export function encodeResult(form: ResultForm, reply: CallReply, options: EncodeOptions): string {
  const { outcome } = reply
  const ending = outcomeEnding(outcome, options)
  // RFC values are objects, numbers, strings and booleans, so null is no output there (C-19).
  const hasOutput = !outcome.ok || outcome.valueJson !== 'null'
  return BODIES[form.dialect]({
    schema: JSON.stringify(form.schemaId),
    id: JSON.stringify(reply.callId),
    duration: outcome.durationMs === undefined ? '' : `"duration":${outcome.durationMs},`,
    success: outcome.ok ? 'true' : 'false',
    ending,
    output: hasOutput ? `,"output":{${ending}}` : '',
    finishedAtMs: form.finishedAtMs,
  })
}

/** A CallToolResponse by itself, as `result` carries it. */
export function encodePlainResult(callId: string, outcome: Outcome, options: EncodeOptions): string {
  const form: ResultForm = { dialect: 'oxp-header', schemaId: '', finishedAtMs: 0 }
  return encodeResult(form, { callId, outcome, replayed: true }, options)
}

function plain(text: ResultText): string {
  return `{"call_id":${text.id},${text.duration}"success":${text.success},${text.ending}}`
}

function outcomeEnding(outcome: Outcome, options: EncodeOptions): string {
  return outcome.ok ? `"value":${outcome.valueJson}` : `"error":${encodeToolError(outcome.error, options)}`
}
