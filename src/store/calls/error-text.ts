/**
 * The pattern of an error message: the message without what differs between equal failures, such as ids, numbers, addresses and
 * quoted values. Groups of errors and the search for a message compare patterns. Each removed part becomes `…`.
 */

const MAX_LENGTH = 300

/** Parts that vary between equal failures. Longer forms come first, so that a part is not cut in pieces. */
const VARIABLE_PARTS: readonly RegExp[] = [
  // Addresses keep their host.
  /(?<=\bhttps?:\/\/[^\s/"'<>]{1,255})[/?#][^\s"'<>)\]]*/g,
  /\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?/g,
  /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi,
  /[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g,
  /(?<![\w.])(?:\/[\w.@~+-]+){2,}\/?/g,
  /"(?:[^"\\]|\\.){1,200}"|'(?![st]\b)[^'\n]{1,200}'|“[^”\n]{1,200}”|`[^`\n]{1,200}`/g,
  // A word with a digit is an id, a number or a size.
  /[\w-]*\d[\w-]*(?:[.,:]\d+)*%?/g,
]

/** The message without its variable parts, on one line. Equal failures have equal patterns. */
export function patternOfError(message: string): string {
  let text = message.slice(0, MAX_LENGTH * 4)
  for (const part of VARIABLE_PARTS) text = text.replaceAll(part, '…')
  const line = text
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/…(?:[\s,.:;/-]*…)+/g, '…')
    .trim()
  return shortened(line)
}

/** A message on one line, short enough for a row of a list. */
export function errorLine(message: string): string {
  return shortened(
    message
      .slice(0, MAX_LENGTH * 4)
      .replaceAll(/\s+/g, ' ')
      .trim(),
  )
}

function shortened(line: string): string {
  return line.length <= MAX_LENGTH ? line : `${line.slice(0, MAX_LENGTH - 1).toWellFormed()}…`
}
