import { fileURLToPath } from 'node:url'

/** Where the code of this package is: a frame in it is not one of the user's. */
const OWN_FOLDER = new URL('../..', import.meta.url).href
const OWN_PATH = pathOf(OWN_FOLDER)
/** Text of a thrown value that is not an error; a dump belongs elsewhere. */
const MAX_TEXT_LENGTH = 500

/** What was thrown and where, in one line for the author of the tool: `TypeError: x is not a function (/app/tools/mail.ts:12:9)`. */
export function explainThrown(thrown: unknown): string {
  const place = placeOfThrown(thrown)
  return place === undefined ? textOfThrown(thrown) : `${textOfThrown(thrown)} (${place})`
}

/** JavaScript can throw anything: `throw 'oops'` has a text too. What else an object holds may be a request with its headers, and stays out. */
export function textOfThrown(thrown: unknown): string {
  if (thrown instanceof Error)
    return thrown.message === '' ? thrown.name : `${thrown.name}: ${thrown.message}`
  if (typeof thrown === 'object' && thrown !== null) {
    return 'message' in thrown && typeof thrown.message === 'string'
      ? thrown.message
      : 'an object without a message'
  }
  return String(thrown).slice(0, MAX_TEXT_LENGTH)
}

/**
 * `path:line:column` of the topmost frame in the user's own files, which are neither Node's, nor a package's, nor ours. A frame that
 * includes `until` ends the search: what is below it called us.
 */
export function placeOfThrown(thrown: unknown, until?: string): string | undefined {
  if (!(thrown instanceof Error) || typeof thrown.stack !== 'string') return undefined
  const lines = thrown.stack.split('\n')
  // A syntax error has no frame of its own: V8 puts the place on the line before the excerpt.
  const marked = /^(file:\/\/\S+|\/\S.*):(\d+)$/.exec(lines[0] ?? '')
  if (marked !== null) return `${pathOf(marked[1] ?? '')}:${marked[2]}`
  for (const line of lines) {
    if (until !== undefined && line.includes(until)) return undefined
    const frame = /^\s+at (?:.*[\s(])?(file:\/\/\S+?|\/[^\s)]+?):(\d+):(\d+)\)?$/.exec(line)
    if (frame === null || isForeignFrame(line)) continue
    return `${pathOf(frame[1] ?? '')}:${frame[2]}:${frame[3]}`
  }
  return undefined
}

/** Whether a line of a stack is in Node, in a package or in ours: not where the author of a tool looks first. */
export function isForeignFrame(line: string): boolean {
  return (
    /\(?node:/.test(line) ||
    line.includes('/node_modules/') ||
    line.includes(OWN_FOLDER) ||
    line.includes(OWN_PATH)
  )
}

/** Without what a file was asked for with: one that is read again has a query. */
function pathOf(place: string): string {
  return place.startsWith('file://') ? fileURLToPath(place.replace(/\?.*$/, '')) : place
}
