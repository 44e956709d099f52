import { type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'

/**
 * Reads TOML 1.0 settings files, with the position of every table, so that `client-files.ts` can remove one table and keep the rest
 * of the text. Dates are read as text. Invariant: for a text that is not TOML the result is `undefined`, and nesting is bounded.
 */

export function parseToml(text: string) {
  try {
    return new Reader(text).document()
  } catch (error) {
    if (error instanceof NotToml) return undefined
    throw error
  }
}

/** A table as text: its header, and one line for each member. */
export function renderTomlTable(path: readonly string[], table: JsonObject): string {
  const lines = Object.entries(table).map(([name, value]) => `${renderKey(name)} = ${renderValue(value)}`)
  return [`[${path.map(renderKey).join('.')}]`, ...lines, ''].join('\n')
}

function renderKey(name: string): string {
  return /^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name)
}

function renderValue(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(renderValue).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([name, inner]) => `${renderKey(name)} = ${renderValue(inner)}`)
  return `{ ${members.join(', ')} }`
}

class NotToml extends Error {}

const MAX_DEPTH = 64

/** An object without a prototype, so that `__proto__` is an ordinary name. */
type Draft = { [name: string]: JsonValue }

/** A table extends from its header to the end of its last line with a value. */
type TomlTable = { readonly path: readonly string[]; readonly start: number; end: number }

class Reader {
  readonly #text: string
  readonly #root: Draft = Object.create(null)
  readonly #tables: TomlTable[] = []
  /** Inline tables, which cannot be extended. */
  readonly #inlineTables = new WeakSet<Draft>()
  #headers = new Set<string>()
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
  }

  document(): { readonly root: JsonObject; readonly tables: readonly TomlTable[] } {
    this.#take(/\uFEFF?/y)
    let table = this.#root
    for (this.#skipLines(); this.#at < this.#text.length; this.#skipLines()) {
      const start = this.#at
      if (this.#text[start] === '[') table = this.#header(start)
      else this.#pair(table)
      this.#endLine()
      const open = this.#tables.at(-1)
      if (open !== undefined) open.end = this.#at
    }
    return { root: this.#root, tables: this.#tables }
  }

  #header(start: number): Draft {
    const isList = this.#take(/\[\[[ \t]*/y) !== undefined
    if (!isList) this.#need(/\[[ \t]*/y)
    const path = this.#key()
    this.#need(isList ? /[ \t]*\]\]/y : /[ \t]*\]/y)
    this.#tables.push({ path, start, end: start })
    const header = JSON.stringify(path)
    if (!isList) {
      if (this.#headers.has(header)) throw new NotToml()
      this.#headers.add(header)
      return this.#tableAt(this.#root, path)
    }
    // Each table of a list has its own subtables.
    this.#headers = new Set([...this.#headers].filter((each) => !each.startsWith(header.slice(0, -1))))
    const holder = this.#tableAt(this.#root, path.slice(0, -1))
    const name = path.at(-1) ?? ''
    const list = holder[name] ?? []
    if (!Array.isArray(list)) throw new NotToml()
    const item: Draft = Object.create(null)
    holder[name] = [...list, item]
    return item
  }

  #tableAt(from: Draft, path: readonly string[]): Draft {
    let table = from
    for (const name of path) {
      const value = table[name] ?? Object.create(null)
      table[name] = value
      const inner = Array.isArray(value) ? value.at(-1) : value
      if (!isDraft(inner) || this.#inlineTables.has(inner)) throw new NotToml()
      table = inner
    }
    return table
  }

  #pair(table: Draft): void {
    const path = this.#key()
    this.#need(/[ \t]*=[ \t]*/y)
    const holder = this.#tableAt(table, path.slice(0, -1))
    const name = path.at(-1) ?? ''
    if (name in holder) throw new NotToml()
    holder[name] = this.#value()
  }

  #key(): readonly string[] {
    const names: string[] = []
    do {
      const bare = this.#take(/[A-Za-z0-9_-]+/y)
      names.push(bare ?? this.#quoted())
    } while (this.#take(/[ \t]*\.[ \t]*/y) !== undefined)
    return names
  }

  #quoted(): string {
    const literal = this.#take(/'[^'\n]*'/y)
    if (literal !== undefined) return literal.slice(1, -1)
    return unescapeText(this.#need(/"(?:[^"\\\n]|\\.)*"/y).slice(1, -1))
  }

  #value(): JsonValue {
    const literals = this.#take(/'''[\s\S]*?'''(?!')/y)
    if (literals !== undefined) return literals.slice(3, -3).replace(/^\r?\n/, '')
    const lines = this.#take(/"""(?:[^\\]|\\[\s\S])*?"""(?!")/y)
    if (lines !== undefined)
      return unescapeText(
        lines
          .slice(3, -3)
          .replace(/^\r?\n/, '')
          .replace(/\\[ \t]*\r?\n\s*/g, ''),
      )
    const first = this.#text[this.#at]
    if (first === '"' || first === "'") return this.#quoted()
    if (first !== '[' && first !== '{') return readScalar(this.#need(/[^\s,\]}#]+(?: \d\d:[\d:.+Z-]+)?/y))
    this.#depth += 1
    if (this.#depth > MAX_DEPTH) throw new NotToml()
    const value = first === '[' ? this.#list() : this.#inlineTable()
    this.#depth -= 1
    return value
  }

  #list(): JsonValue {
    const items: JsonValue[] = []
    this.#members(']', () => items.push(this.#value()))
    return items
  }

  #inlineTable(): JsonValue {
    const table: Draft = Object.create(null)
    this.#members('}', () => this.#pair(table))
    this.#inlineTables.add(table)
    return table
  }

  /** Reads the members between brackets, separated by commas. */
  #members(end: string, readMember: () => void): void {
    this.#at += 1
    for (this.#skipLines(); this.#text[this.#at] !== end; this.#skipLines()) {
      readMember()
      this.#skipLines()
      if (this.#take(/,/y) === undefined && this.#text[this.#at] !== end) throw new NotToml()
    }
    this.#at += 1
  }

  /** Skips blanks, line ends and comments. */
  #skipLines(): void {
    this.#take(/(?:\s|#[^\n]*)*/y)
  }

  #endLine(): void {
    this.#take(/[ \t]*(?:#[^\n]*)?/y)
    if (this.#at < this.#text.length) this.#need(/\r?\n|\r$/y)
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const [found] = pattern.exec(this.#text) ?? []
    if (found !== undefined) this.#at += found.length
    return found
  }

  #need(pattern: RegExp): string {
    const found = this.#take(pattern)
    if (found === undefined) throw new NotToml()
    return found
  }
}

function isDraft(value: JsonValue | undefined): value is Draft {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const ESCAPES: Readonly<Record<string, string>> = { b: '\b', t: '\t', n: '\n', f: '\f', r: '\r', e: '\u001B' }

function unescapeText(text: string): string {
  return text.replace(/\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([\s\S]))/g, (_, short, long, character) => {
    if (character === undefined) {
      const code = Number.parseInt(short ?? long, 16)
      if (code > 0x10ffff) throw new NotToml()
      return String.fromCodePoint(code)
    }
    const known = character === '"' || character === '\\' ? character : ESCAPES[character]
    if (known === undefined) throw new NotToml()
    return known
  })
}

function readScalar(word: string): JsonValue {
  if (word === 'true' || word === 'false') return word === 'true'
  const digits = word.replace(/(?<=[0-9A-Fa-f])_(?=[0-9A-Fa-f])/g, '')
  if (/^[+-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(digits))
    return parseJson(digits.replace(/^\+/, '')) ?? word
  if (/^0(?:x[0-9A-Fa-f]+|o[0-7]+|b[01]+)$/.test(digits)) return Number(digits)
  if (/^[+-]?(?:inf|nan)$/.test(word) || /^\d{2,4}[-:]/.test(word)) return word
  throw new NotToml()
}
