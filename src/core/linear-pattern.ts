import { RE2JS } from 're2js'

/** A pattern made to match in linear time, or why it cannot be. */
export type LinearPattern =
  | { readonly ok: true; readonly test: (text: string) => boolean }
  | { readonly ok: false; readonly problem: string }

/** Longer ones take long to compile, and nobody wrote them by hand. */
const LONGEST_PATTERN = 4_096

/**
 * A pattern that somebody else wrote, on an engine without backtracking, so that no text can hang us. It has to
 * compile as ECMA-262 too: what only the engine understands would mean something else upstream.
 */
export function compileLinear(pattern: string): LinearPattern {
  if (pattern.length > LONGEST_PATTERN) {
    return { ok: false, problem: `has more than ${LONGEST_PATTERN} characters` }
  }
  try {
    new RegExp(pattern, 'u')
    const compiled = RE2JS.compile(RE2JS.translateRegExp(withSpaces(pattern)))
    return { ok: true, test: (text) => compiled.test(text) }
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'it does not compile'
    return { ok: false, problem: detail }
  }
}

/** Ajv's hook: called at compile time for every pattern that is left in a schema. Ajv tells patterns apart by their text. */
export const LINEAR_ENGINE = Object.assign(
  (pattern: string) => {
    const compiled = compileLinear(pattern)
    if (compiled.ok) return { test: compiled.test, toString: () => pattern }
    throw new Error(`The pattern ${JSON.stringify(pattern)} ${compiled.problem}`)
  },
  { code: 'linear' },
)

const IDLE = /[-_ @'":#,=<>~!%&`;]/

/** Without escapes that mean the character itself, as `\-` or `\@`: common, harmless, and refused by the `u` flag. */
export function withoutIdleEscapes(pattern: string): string {
  return mapEscapes(pattern, (escaped, inClass) =>
    IDLE.test(escaped) && !(inClass && escaped === '-') ? escaped : undefined,
  )
}

const SPACES =
  '\\t\\n\\x0B\\f\\r \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}'

/** ECMA-262 counts more characters as white space than the engine does. */
function withSpaces(pattern: string): string {
  return mapEscapes(pattern, (escaped, inClass) => {
    if (escaped === 's') return inClass ? SPACES : `[${SPACES}]`
    return escaped === 'S' && !inClass ? `[^${SPACES}]` : undefined
  })
}

/** Replaces escape sequences; `undefined` leaves one as it is. */
function mapEscapes(pattern: string, map: (escaped: string, inClass: boolean) => string | undefined): string {
  let inClass = false
  return pattern.replaceAll(/\\([\s\S])|[[\]]/g, (found, escaped: string | undefined) => {
    if (escaped !== undefined) return map(escaped, inClass) ?? found
    inClass = found === '['
    return found
  })
}
