import type { Outcome } from '#core/call'
import { StoreError } from '#core/errors'

/**
 * An outcome as it is stored. A value keeps the bytes it is answered with: `+<duration>\n<value>`, without a duration that nobody knows; one that was also
 * shown is `*<json>`, a failure `-<json>`.
 */
export function outcomeToText(outcome: Outcome): string {
  if (!outcome.ok) return `-${JSON.stringify(outcome)}`
  if (outcome.shown !== undefined) return `*${JSON.stringify(outcome)}`
  return `+${outcome.durationMs ?? ''}\n${outcome.valueJson}`
}

export function outcomeFromText(text: string): Outcome {
  if (text.startsWith('+')) {
    const end = text.indexOf('\n')
    const valueJson = text.slice(end + 1)
    return end === 1
      ? { ok: true, valueJson }
      : { ok: true, valueJson, durationMs: Number(text.slice(1, end)) }
  }
  const outcome: Outcome = JSON.parse(text.slice(1))
  if (outcome.ok === text.startsWith('*')) return outcome
  throw new StoreError('unreadable', 'a stored outcome has an unknown form')
}
