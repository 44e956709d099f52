/** What may come next at one place of a JSON text. */
type Expected = 'value' | 'value or ]' | 'name' | 'name or }' | 'colon' | 'comma or end'

const SPACE = /[ \t\n\r]*/y
const SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y

/**
 * Offset of the first character that cannot stand where it stands, for a text that `JSON.parse` refused:
 * engines word their errors differently and often leave the position out.
 */
export function findSyntaxError(text: string): number {
  const open: ('{' | '[')[] = []
  let expected: Expected = 'value'
  let at = skip(SPACE, text, 0)
  while (at < text.length) {
    const character = text.charAt(at)
    const next = step(character, expected, open)
    if (next === undefined) return at
    if (next === 'scalar') {
      const end = character === '"' ? endOfString(text, at) : skip(SCALAR, text, at)
      if (end === at) return at
      if (end < 0) return -end
      at = end
      expected = afterScalar(expected)
    } else {
      at += 1
      expected = next
    }
    at = skip(SPACE, text, at)
  }
  return text.length
}

function afterScalar(expected: Expected): Expected {
  return expected.startsWith('name') ? 'colon' : 'comma or end'
}

/** What follows a punctuation mark; `scalar` if the character must start one; `undefined` if it is wrong. */
function step(character: string, expected: Expected, open: ('{' | '[')[]): Expected | 'scalar' | undefined {
  switch (character) {
    case '{':
    case '[':
      if (expected !== 'value' && expected !== 'value or ]') return undefined
      open.push(character)
      return character === '{' ? 'name or }' : 'value or ]'
    case '}':
      if (expected !== 'name or }' && expected !== 'comma or end') return undefined
      return open.pop() === '{' ? 'comma or end' : undefined
    case ']':
      if (expected !== 'value or ]' && expected !== 'comma or end') return undefined
      return open.pop() === '[' ? 'comma or end' : undefined
    case ':':
      return expected === 'colon' ? 'value' : undefined
    case ',':
      if (expected !== 'comma or end' || open.length === 0) return undefined
      return open.at(-1) === '{' ? 'name' : 'value'
    default:
      if (expected === 'colon' || expected === 'comma or end') return undefined
      return character === '"' || expected.startsWith('value') ? 'scalar' : undefined
  }
}

/** Offset behind the closing quote; negative, the offset of what cannot stand in a string. */
function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === 0x22) return at + 1
    if (code < 0x20) return -at
    const next = code === 0x5c ? skip(ESCAPE, text, at) : at + 1
    if (next === at) return -at
    at = next
  }
  return -text.length
}

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : at
}
