import type { CallError } from '#core/call'
import { fault, type ToolError } from '#core/errors'
import { isJsonObject, type JsonValue } from '#core/json'
import type { Settlement } from '#core/ports/store'

const LONGEST_WHY = 1_000
const MEMBERS: ReadonlySet<string> = new Set(['as', 'value', 'why'])

const SETTLED_AS_FAILED: CallError = {
  code: 'tool_failed',
  message: 'The call was cut short, and an operator found that it failed.',
  canRetry: false,
}

/** `{ as, value?, why }` of an operator who knows how an ambiguous call ended (rule 12). */
export function readSettlement(
  body: JsonValue | undefined,
  by: Pick<Settlement, 'record' | 'who' | 'atMs'>,
): Settlement {
  if (!isJsonObject(body)) throw wrong('Send a JSON object with `as`, `why`, and perhaps `value`.')
  const stranger = Object.keys(body).find((name) => !MEMBERS.has(name))
  if (stranger !== undefined) throw wrong('Only `as`, `value` and `why` may be sent.')
  const as = readAs(body.as)
  const value = Object.hasOwn(body, 'value') ? body.value : undefined
  if (value !== undefined && as !== 'succeeded') throw wrong('`value` goes only with `as: "succeeded"`.')
  return {
    ...by,
    as,
    why: readWhy(body.why),
    valueJson: value === undefined ? undefined : JSON.stringify(value),
    error: as === 'failed' ? SETTLED_AS_FAILED : undefined,
  }
}

function readAs(as: JsonValue | undefined): Settlement['as'] {
  if (as === 'succeeded' || as === 'failed' || as === 'not-run') return as
  throw wrong('`as` is one of "succeeded", "failed" and "not-run".')
}

function readWhy(why: JsonValue | undefined): string {
  if (typeof why === 'string' && why.trim() !== '' && why.length <= LONGEST_WHY) return why
  throw wrong(`\`why\` is a text of 1 to ${LONGEST_WHY} characters: how do you know?`)
}

function wrong(message: string): ToolError {
  return fault('request_invalid', message)
}
