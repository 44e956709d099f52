import { isJsonObject, type JsonValue, parseJson } from '#kernel/base/json'

/** JSON as editors keep their settings: with comments, and with commas before a closing bracket. */
export function parseJsonc(text: string): JsonValue | undefined {
  return parseJson(plainJson(text))
}

/**
 * The text with the member at `path` set; every other character stays, comments included. `undefined` when the text is no
 * object, or something on the way to the member is none.
 */
export function setJsoncMember(text: string, path: readonly string[], value: JsonValue): string | undefined {
  const plain = plainJson(text)
  if (!isJsonObject(parseJson(plain))) return undefined
  const style = styleOf(text)
  let at = plain.indexOf('{')
  for (const [depth, name] of path.entries()) {
    const { members, end } = readMembers(plain, at)
    const member = members.findLast((each) => each.name === name)
    const isLast = depth === path.length - 1
    if (member === undefined) {
      const written = nested(path.slice(depth + 1), value)
      const lines = `${JSON.stringify(name)}: ${render(written, depth + 1, style)}`
      return inserted(text, { at, end, last: members.at(-1)?.end, lines, depth, style })
    }
    if (isLast)
      return `${text.slice(0, member.start)}${render(value, depth + 1, style)}${text.slice(member.end)}`
    if (plain[member.start] !== '{') return undefined
    at = member.start
  }
  return undefined
}

/** The text without the member at `path`; every other character stays. `undefined` where there is no such member. */
export function removeJsoncMember(text: string, path: readonly string[]): string | undefined {
  const plain = plainJson(text)
  if (!isJsonObject(parseJson(plain))) return undefined
  let at = plain.indexOf('{')
  for (const [depth, name] of path.entries()) {
    const { members } = readMembers(plain, at)
    const index = members.findLastIndex((each) => each.name === name)
    const member = members[index]
    if (member === undefined) return undefined
    if (depth === path.length - 1) return cutMember(text, plain, member, members[index - 1])
    if (plain[member.start] !== '{') return undefined
    at = member.start
  }
  return undefined
}

/** Takes a member and one comma away: the one after it, else the one before it. */
function cutMember(text: string, plain: string, { from, end }: Member, previous: Member | undefined): string {
  const after = withoutComments(text)
  const own = /^\s*,/.exec(after.slice(end))?.[0].length
  if (own !== undefined) return cutRange(text, from, end + own)
  const rest = cutRange(text, from, end)
  const comma = previous === undefined ? -1 : plain.indexOf(',', previous.end)
  return comma === -1 || comma > from ? rest : `${rest.slice(0, comma)}${rest.slice(comma + 1)}`
}

/** Takes a range away, with its line where nothing else is on it. */
function cutRange(text: string, from: number, to: number): string {
  const before = text.slice(0, from).replace(/[ \t]+$/, '')
  if (!before.endsWith('\n')) return `${text.slice(0, from)}${text.slice(to)}`
  const after = text.slice(to).replace(/^[ \t]+/, '')
  const lineEnd = /^\r?\n/.exec(after)?.[0].length
  return lineEnd === undefined ? `${text.slice(0, from)}${after}` : `${before}${after.slice(lineEnd)}`
}

const COMMENTS = /("(?:[^"\\\n]|\\.)*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g
const LAST_COMMAS = /("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])/g

/** The same text with blanks for what JSON does not know, so that every place in it is the same place. */
function plainJson(text: string): string {
  return withoutComments(text).replace(LAST_COMMAS, blank)
}

function withoutComments(text: string): string {
  const start = text.startsWith('\uFEFF') ? ` ${text.slice(1)}` : text
  return start.replace(COMMENTS, blank)
}

/** Blanks for what was found, unless it is a text in quotes. */
function blank(found: string, quoted: string | undefined): string {
  return quoted ?? found.replace(/[^\n]/g, ' ')
}

interface Member {
  readonly name: string
  /** Where its name begins. */
  readonly from: number
  /** Where its value begins and ends. */
  readonly start: number
  readonly end: number
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g

/** The members of the object that begins at `from`, and where it ends; `plain` is JSON. */
function readMembers(
  plain: string,
  from: number,
): { readonly members: readonly Member[]; readonly end: number } {
  const members: Member[] = []
  let depth = 0
  let name: string | undefined
  let nameAt = from
  let start: number | undefined
  let end = from
  for (const { 0: token, index } of plain.slice(from).matchAll(TOKEN)) {
    const isClosing = token === '}' || token === ']'
    if (isClosing) depth -= 1
    const endsMember = (depth === 1 && token === ',') || depth === 0
    if (endsMember && name !== undefined && start !== undefined) {
      members.push({ name, from: nameAt, start, end })
      name = undefined
      start = undefined
    } else if (depth === 1 && name === undefined && token.startsWith('"')) {
      name = String(parseJson(token))
      nameAt = from + index
    } else if (name !== undefined && token !== ':' && start === undefined) start = from + index
    end = from + index + token.length
    if (token === '{' || token === '[') depth += 1
    else if (depth === 0) return { members, end: from + index }
  }
  return { members, end }
}

interface Style {
  readonly indent: string
  readonly lineEnd: string
}

function styleOf(text: string): Style {
  return {
    indent: /\n([ \t]+)"/.exec(text)?.[1] ?? '  ',
    lineEnd: text.includes('\r\n') ? '\r\n' : '\n',
  }
}

function nested(path: readonly string[], value: JsonValue): JsonValue {
  return path.reduceRight<JsonValue>((inner, name) => ({ [name]: inner }), value)
}

function render(value: JsonValue, depth: number, { indent, lineEnd }: Style): string {
  return JSON.stringify(value, undefined, indent).replaceAll('\n', `${lineEnd}${indent.repeat(depth)}`)
}

interface Insertion {
  /** Where the object begins and ends. */
  readonly at: number
  readonly end: number
  /** Where its last member ends. */
  readonly last: number | undefined
  readonly lines: string
  readonly depth: number
  readonly style: Style
}

function inserted(text: string, { at, end, last, lines, depth, style }: Insertion): string {
  const { indent, lineEnd } = style
  const place = last ?? at + 1
  const isOnOneLine = last === undefined && !text.slice(at, end).includes('\n')
  const close = isOnOneLine ? `${lineEnd}${indent.repeat(depth)}` : ''
  const comma = last === undefined ? '' : ','
  return `${text.slice(0, place)}${comma}${lineEnd}${indent.repeat(depth + 1)}${lines}${close}${text.slice(place)}`
}
