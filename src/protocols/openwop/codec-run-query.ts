import { fault } from '#core/errors'

const WHOLE = /^-1$|^[0-9]{1,15}$/
const LONGEST_WAIT_S = 60

/** The last sequence a reader has: -1 for none. */
export function decodeLastSequence(name: string, text: string | undefined): number {
  if (text === undefined || text.trim() === '') return -1
  if (WHOLE.test(text.trim())) return Number(text)
  throw fault('request_invalid', `"${name}" must be the sequence of the last event you have, such as 3.`)
}

/** How long a poll may wait, in milliseconds; without a `timeout` it answers at once (OWP-98). */
export function decodeTimeout(text: string | null): number {
  if (text === null) return 0
  const seconds = /^[0-9]{1,2}$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= LONGEST_WAIT_S) return seconds * 1_000
  throw fault('request_invalid', `"timeout" must be a whole number of seconds from 1 to ${LONGEST_WAIT_S}.`)
}
