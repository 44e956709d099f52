import { cleanJson, cleanText } from '#kernel/base/json'
import { type Definition, optionsOf, type TypeNode } from './type-table.ts'

/**
 * Writes types as TypeScript: over several lines with comments for a file, or on one line for a model. `tool-types.ts` uses it.
 * Invariant: the text is one type, and the names, values and descriptions of a schema occur in it only as comments, strings and
 * names.
 */

export interface Naming {
  /** The name of a type that is declared elsewhere; `undefined` for one that is written out here. */
  nameOf(type: TypeNode): string | undefined
  definitionName(definition: Definition): string
}

export const ANY_TYPE = 'JsonValue'
export const ANY_OBJECT = 'JsonObject'
const MAX_LINE = 100
const IDENTIFIER = /^[A-Za-z_$][A-Za-z0-9_$]*$/

export function printType(type: TypeNode, naming: Naming, indent = ''): string {
  return naming.nameOf(type) ?? printHere(type, naming, indent)
}

/** Writes the type out, also if it has a name. */
export function printHere(type: TypeNode, naming: Naming, indent: string): string {
  const inner = (node: TypeNode): string => printType(node, naming, indent)
  switch (type.kind) {
    case 'any':
      return ANY_TYPE
    case 'never':
      return 'never'
    case 'primitive':
      return type.name
    case 'literal':
      return cleanJson(type.value)
    case 'array':
      return `${grouped(type.item, inner)}[]`
    case 'tuple': {
      const items = type.items.map((item, index) =>
        index < type.required ? inner(item) : `${grouped(item, inner)}?`,
      )
      const rest = type.rest === undefined ? [] : [`...${grouped(type.rest, inner)}[]`]
      return `[${[...items, ...rest].join(', ')}]`
    }
    case 'object':
      return printObject(type, naming, indent)
    case 'union': {
      const options = type.options.map(inner)
      const line = options.join(' | ')
      const isShort = line.length <= MAX_LINE || options.length < 3
      return isShort ? line : options.map((option) => `\n${indent}  | ${option}`).join('')
    }
    case 'all':
      return type.parts.map((part) => grouped(part, inner)).join(' & ')
    case 'ref':
      return naming.definitionName(type.definition)
  }
}

function grouped(type: TypeNode, print: (type: TypeNode) => string): string {
  const text = print(type)
  return IDENTIFIER.test(text) || (type.kind !== 'union' && type.kind !== 'all') ? text : `(${text})`
}

type Printed<Kind> = Extract<TypeNode, { readonly kind: Kind }>

function printObject(
  { members, index, isClosed }: Printed<'object'>,
  naming: Naming,
  indent: string,
): string {
  if (members.length === 0 && index === undefined) return isClosed ? '{ [name: string]: never }' : ANY_OBJECT
  if (members.length === 0 && index?.kind === 'any') return ANY_OBJECT
  const deeper = `${indent}  `
  const lines = members.map(({ name, type, isOptional, doc }) => {
    const text = `${propertyName(name)}${isOptional ? '?' : ''}: ${printType(type, naming, deeper)}`
    return { text, comment: commentOf(doc, deeper) }
  })
  if (index !== undefined)
    lines.push({ text: `[name: string]: ${indexType({ members, index }, naming, deeper)}`, comment: '' })
  const line = `{ ${lines.map(({ text }) => text).join('; ')} }`
  const isShort = line.length + indent.length <= MAX_LINE && !line.includes('\n')
  if (isShort && lines.every(({ comment }) => comment === '')) return line
  return `{\n${lines.map(({ text, comment }) => `${comment}${deeper}${text};\n`).join('')}${indent}}`
}

/** The type of the index signature. TypeScript requires that it also covers the declared members, so it becomes a union with them if that is short. */
function indexType(
  { members, index }: Pick<Printed<'object'>, 'members'> & { readonly index: TypeNode },
  naming: Naming,
  indent: string,
): string {
  if (members.length === 0) return printType(index, naming, indent)
  const own = members.flatMap(({ type }) => optionsOf(type))
  const options = new Set([...optionsOf(index), ...own])
  if (options.size > MAX_INDEX_OPTIONS || index.kind === 'any' || !own.every(isPlain)) return 'unknown'
  const types = new Set([...options].map((option) => printType(option, naming, indent)))
  return [...types, ...(members.some(({ isOptional }) => isOptional) ? ['undefined'] : [])].join(' | ')
}

const MAX_INDEX_OPTIONS = 8

function isPlain({ kind }: TypeNode): boolean {
  return kind === 'primitive' || kind === 'literal'
}

export function propertyName(name: string): string {
  return IDENTIFIER.test(name) ? name : cleanJson(name)
}

/** A comment with its line break; empty for no lines. */
export function commentOf(lines: readonly string[], indent: string): string {
  if (lines.length === 0) return ''
  const safe = lines.map((line) => cleanText(line).replaceAll('*/', '*\\/'))
  if (safe.length === 1) return `${indent}/** ${safe[0]} */\n`
  return `${indent}/**\n${safe.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`
}
