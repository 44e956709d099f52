import { fileURLToPath } from 'node:url'

/**
 * Explains thrown values to tool authors: a text, and the location in their own files.
 * For a thrown object only the message is shown, because other members may be a request with its headers.
 */

/** Folder of this package; stack frames in this folder are not the user's code. */
const OWN_FOLDER = new URL('../..', import.meta.url).href
const OWN_PATH = pathOf(OWN_FOLDER)
/** Limit for the text of a thrown value that is not an error. */
const MAX_TEXT_LENGTH = 500

/** The thrown value and its location in one line: `TypeError: x is not a function (/app/tools/mail.ts:12:9)`. */
export function explainThrown(thrown: unknown): string {
  const location = locationOfThrown(thrown)
  return location === undefined ? textOfThrown(thrown) : `${textOfThrown(thrown)} (${location})`
}

/** The text of any thrown value; JavaScript allows `throw 'oops'`. */
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
 * `path:line:column` of the topmost frame in the user's own files, not in Node, another package or this package. A frame
 * that includes `until` ends the search, because the frames below it belong to this package.
 */
export function locationOfThrown(thrown: unknown, until?: string): string | undefined {
  if (!(thrown instanceof Error) || typeof thrown.stack !== 'string') return undefined
  const lines = thrown.stack.split('\n')
  // A syntax error has no stack frame: V8 puts the location on the line before the excerpt.
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

/** Whether a line of a stack trace is in Node, in another package or in this package. */
export function isForeignFrame(line: string): boolean {
  return (
    /\(?node:/.test(line) ||
    line.includes('/node_modules/') ||
    line.includes(OWN_FOLDER) ||
    line.includes(OWN_PATH)
  )
}

/** The file path of a location; drops the query in the URL of a module that was loaded again. */
function pathOf(location: string): string {
  return location.startsWith('file://') ? fileURLToPath(location.replace(/\?.*$/, '')) : location
}
