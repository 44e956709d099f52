import { createScanner, findNodeAtLocation, type Node, type ParseError, parseTree } from 'jsonc-parser'
import type { JsonValue } from '#kernel/base/json'

/**
 * Reads and edits JSON as editors keep their settings: with comments, and with commas before a closing bracket.
 * `client-files.ts` uses it for the files of MCP clients. Invariant: an edit changes one member, and every other
 * character of the text stays, comments included.
 */

export function parseJsonc(text: string): JsonValue | undefined {
  const root = parseRoot(text)
  return root === undefined ? undefined : jsonOf(root)
}

/**
 * Sets the member at `path`, and creates the objects that lead to it. `undefined` if the text is not an object, or if
 * another value is where an object should be.
 */
export function setJsoncMember(text: string, path: readonly string[], value: JsonValue): string | undefined {
  const root = parseRoot(text)
  if (root?.type !== 'object') return undefined
  const style = styleOf(text)
  const member = findNodeAtLocation(root, [...path])
  if (member !== undefined) {
    const { offset, length } = member
    return `${text.slice(0, offset)}${render(value, path.length, style)}${text.slice(offset + length)}`
  }
  const depth = path.findIndex((_, index) => findNodeAtLocation(root, path.slice(0, index + 1)) === undefined)
  const holder = findNodeAtLocation(root, path.slice(0, depth))
  const [name = '', ...rest] = path.slice(depth)
  if (holder?.type !== 'object') return undefined
  const inner = rest.reduceRight<JsonValue>((held, each) => ({ [each]: held }), value)
  const written = `${JSON.stringify(name)}: ${render(inner, depth + 1, style)}`
  return insertMember(text, holder, written, { depth, style })
}

export function removeJsoncMember(text: string, path: readonly string[]): string | undefined {
  const root = parseRoot(text)
  const member = root === undefined ? undefined : findNodeAtLocation(root, [...path])?.parent
  if (member?.type !== 'property') return undefined
  const end = endOf(member)
  const comma = commaAfter(text, end)
  if (comma !== undefined) return removeRange(text, member.offset, comma + 1)
  const rest = removeRange(text, member.offset, end)
  const siblings = member.parent?.children ?? []
  const previous = siblings[siblings.indexOf(member) - 1]
  const before = previous === undefined ? undefined : commaAfter(text, endOf(previous))
  return before === undefined ? rest : `${rest.slice(0, before)}${rest.slice(before + 1)}`
}

/** Nesting that is too deep for the parser counts as unreadable. */
function parseRoot(text: string): Node | undefined {
  const errors: ParseError[] = []
  try {
    const root = parseTree(text.replace(/^\uFEFF/, ' '), errors, { allowTrailingComma: true })
    return errors.length === 0 ? root : undefined
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** Members become own properties, even a member named `__proto__`. */
function jsonOf({ type, value, children = [] }: Node): JsonValue {
  if (type === 'array') return children.map(jsonOf)
  if (type !== 'object') return value
  const members = children.flatMap(({ children: [name, member] = [] }): [string, JsonValue][] =>
    name === undefined || member === undefined ? [] : [[name.value, jsonOf(member)]],
  )
  return Object.fromEntries(members)
}

function endOf({ offset, length }: Node): number {
  return offset + length
}

/** Position of the next token, if it is a comma. */
function commaAfter(text: string, end: number): number | undefined {
  const scanner = createScanner(text, true)
  scanner.setPosition(end)
  scanner.scan()
  const at = scanner.getTokenOffset()
  return text[at] === ',' ? at : undefined
}

/** Removes a range, and its line if nothing else is on the line. */
function removeRange(text: string, from: number, to: number): string {
  const before = text.slice(0, from).replace(/[ \t]+$/, '')
  if (!before.endsWith('\n')) return `${text.slice(0, from)}${text.slice(to)}`
  const after = text.slice(to).replace(/^[ \t]+/, '')
  const lineEnd = /^\r?\n/.exec(after)?.[0].length
  return lineEnd === undefined ? `${text.slice(0, from)}${after}` : `${before}${after.slice(lineEnd)}`
}

type Style = ReturnType<typeof styleOf>

function styleOf(text: string) {
  return {
    indent: /\n([ \t]+)"/.exec(text)?.[1] ?? '  ',
    lineEnd: text.includes('\r\n') ? '\r\n' : '\n',
  }
}

function render(value: JsonValue, depth: number, { indent, lineEnd }: Style): string {
  return JSON.stringify(value, undefined, indent).replaceAll('\n', `${lineEnd}${indent.repeat(depth)}`)
}

/** Adds a member after an object's last member. */
function insertMember(
  text: string,
  holder: Node,
  member: string,
  { depth, style: { indent, lineEnd } }: { readonly depth: number; readonly style: Style },
): string {
  const last = holder.children?.at(-1)
  const position = last === undefined ? holder.offset + 1 : endOf(last)
  const isOnOneLine = last === undefined && !text.slice(holder.offset, endOf(holder)).includes('\n')
  const close = isOnOneLine ? `${lineEnd}${indent.repeat(depth)}` : ''
  const comma = last === undefined ? '' : ','
  return `${text.slice(0, position)}${comma}${lineEnd}${indent.repeat(depth + 1)}${member}${close}${text.slice(position)}`
}
