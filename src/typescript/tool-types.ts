import type { JsonObject, JsonValue } from '#kernel/base/json'
import { docLines, readType, type Widening } from './from-schema.ts'
import {
  ANY_OBJECT,
  ANY_TYPE,
  commentOf,
  type Naming,
  printHere,
  printType,
  propertyName,
} from './print-type.ts'
import { type Definition, type TypeNode, TypeTable } from './type-table.ts'

/**
 * Writes the file of `collet types`: one entry for each tool, with its names and the types of its input and output. A type that
 * occurs several times is declared once and referred to by name.
 * Invariant: the file is valid TypeScript for any tools; it does not depend on the order of the tools, and its size grows in
 * proportion to their schemas.
 */

/** A tool as it is described to a caller. */
interface DescribedTool {
  readonly id: string
  readonly description: string
  readonly input: JsonObject
  /** `none` for a tool without output, `any` for one that declares none. */
  readonly output: JsonObject | 'none' | 'any'
}

export interface NamedTool {
  readonly tool: DescribedTool
  /** The name of its entry. */
  readonly name: string
  /** All other names of this tool. */
  readonly others: readonly string[]
}

export interface ToolTypes {
  readonly text: string
  /** Tools of which a type accepts more than the schema. */
  readonly widened: readonly { readonly tool: string; readonly parts: readonly Widening[] }[]
}

export function writeToolTypes(tools: readonly NamedTool[]): ToolTypes {
  const table = new TypeTable()
  const sorted = tools.toSorted((left, right) => compare(left.name, right.name))
  const entries = sorted.map((named) => readEntry(named, table))
  const names = new TypeNames(entries)
  const body = entries.map((entry) => printEntry(entry, names)).join('\n')
  const declared = names
    .declarations()
    .map(([name, type]) => `type ${name} = ${printHere(type, names, '')};\n`)
    .join('\n')
  const text = [HEADER, `export interface Tools {\n${body}}\n`, declared, JSON_TYPES].filter(
    (part) => part !== '',
  )
  const widened = entries.flatMap(({ name, widened: parts }) =>
    parts.length === 0 ? [] : [{ tool: name, parts }],
  )
  return { text: text.join('\n'), widened }
}

const HEADER = `/**
 * The tools of a server, written by \`collet types\`. Run the command again instead of editing this file.
 */
/* eslint-disable */
`

const JSON_TYPES = `export type ${ANY_TYPE} = null | boolean | number | string | readonly ${ANY_TYPE}[] | ${ANY_OBJECT};
export type ${ANY_OBJECT} = { readonly [name: string]: ${ANY_TYPE} };
`

const MAX_SHOWN_WIDENINGS = 5
/** Larger types are not written, because they make compilers and editors slow. */
const MAX_NODES = 20_000

interface Entry {
  readonly name: string
  readonly others: readonly string[]
  readonly doc: readonly string[]
  readonly input: TypeNode
  readonly output: TypeNode
  readonly definitions: readonly Definition[]
  readonly widened: readonly Widening[]
}

function readEntry({ tool, name, others }: NamedTool, table: TypeTable): Entry {
  const definitions: Definition[] = []
  const widened: Widening[] = []
  const read = (schema: JsonValue, path: string): TypeNode => {
    const found = readType(schema, table, { path, docs: true })
    if (countNodes(found.type, MAX_NODES) > MAX_NODES) {
      widened.push({ path, why: `more than ${MAX_NODES} types` })
      return table.any
    }
    definitions.push(...found.definitions)
    widened.push(...found.widened)
    return found.type
  }
  // The input is always an object.
  const input = read({ type: 'object', ...tool.input }, 'input')
  const output = tool.output === 'none' ? table.primitive('null') : read(outputSchema(tool.output), 'output')
  return { name, others, doc: docOf(tool, widened), input, output, definitions, widened }
}

function outputSchema(output: JsonObject | 'any'): JsonValue {
  return output === 'any' ? true : output
}

function docOf({ description }: DescribedTool, widened: readonly Widening[]): readonly string[] {
  const shown = widened.slice(0, MAX_SHOWN_WIDENINGS)
  const left = widened.length - shown.length
  return [
    ...docLines(description),
    ...shown.flatMap(({ path, why }) => docLines(`Accepts more than the schema at ${path}: ${why}.`)),
    ...(left === 0 ? [] : [`Accepts more than the schema at ${left} more places.`]),
  ]
}

function printEntry({ name, others, doc, input, output }: Entry, names: TypeNames): string {
  const lines = [
    `names: ${others.length === 0 ? 'never' : others.map((each) => propertyText(each)).join(' | ')};`,
    `input: ${input.kind === 'any' ? ANY_OBJECT : printType(input, names, INDENT)};`,
    `output: ${printType(output, names, INDENT)};`,
  ]
  return `${commentOf(doc, '  ')}  ${propertyName(name)}: {\n${lines.map((line) => `${INDENT}${line}\n`).join('')}  };\n`
}

const INDENT = '    '

function propertyText(name: string): string {
  return printHere(new TypeTable().literal(name), NO_NAMES, '')
}

const NO_NAMES: Naming = { nameOf: () => undefined, definitionName: ({ name }) => name }

/** Counts different nodes, up to a limit. */
function countNodes(type: TypeNode, limit: number): number {
  const seen = new Set<TypeNode>()
  const visit = (node: TypeNode): void => {
    if (seen.has(node) || seen.size > limit) return
    seen.add(node)
    for (const part of partsOf(node)) visit(part)
  }
  visit(type)
  return seen.size
}

/** The nodes directly inside a node. */
function partsOf(node: TypeNode): readonly TypeNode[] {
  switch (node.kind) {
    case 'array':
      return [node.item]
    case 'tuple':
      return node.rest === undefined ? node.items : [...node.items, node.rest]
    case 'object':
      return [...node.members.map(({ type }) => type), ...(node.index === undefined ? [] : [node.index])]
    case 'union':
      return node.options
    case 'all':
      return node.parts
    case 'ref':
      return [node.definition.type]
    default:
      return []
  }
}

/** Types shorter than this many characters are repeated. */
const MIN_DECLARED = 60
const NAME_LENGTH = 16

/** Decides which types are declared, and assigns their names. */
class TypeNames implements Naming {
  readonly #names = new Map<TypeNode, string>()
  readonly #definitions = new Map<Definition, string>()
  readonly #taken = new Set(['Tools', ANY_TYPE, ANY_OBJECT])
  readonly #uses = new Map<TypeNode, number>()
  readonly #sizes = new Map<TypeNode, number>()
  readonly #digests = new Map<TypeNode, number>()

  constructor(entries: readonly Entry[]) {
    for (const { input, output } of entries) for (const type of [input, output]) this.#count(type)
    const shared = [...this.#uses.keys()].filter((node) => this.#isShared(node))
    const wanted = Map.groupBy(shared, (node) => typeName(node.kind === 'object' ? node.title : undefined))
    for (const [name, nodes] of wanted)
      for (const node of nodes)
        this.#names.set(
          node,
          this.#take(nodes.length === 1 ? name : `${name}_${this.#digest(node).toString(36)}`),
        )
    for (const { name: tool, definitions } of entries)
      for (const definition of definitions)
        this.#definitions.set(definition, this.#take(typeName(`${tool} ${definition.name}`)))
  }

  nameOf(type: TypeNode): string | undefined {
    return this.#names.get(type)
  }

  definitionName(definition: Definition): string {
    return this.#definitions.get(definition) ?? ANY_TYPE
  }

  declarations(): readonly (readonly [string, TypeNode])[] {
    const recursive = [...this.#definitions].map(([{ type }, name]) => [name, type] as const)
    const shared = [...this.#names].map(([type, name]) => [name, type] as const)
    return [...shared, ...recursive].sort(([left], [right]) => compare(left, right))
  }

  #take(name: string): string {
    let free = name
    for (let number = 2; this.#taken.has(free); number += 1) free = `${name}_${number}`
    this.#taken.add(free)
    return free
  }

  #count(node: TypeNode): void {
    const uses = (this.#uses.get(node) ?? 0) + 1
    this.#uses.set(node, uses)
    if (uses === 1) for (const part of partsOf(node)) this.#count(part)
  }

  #isShared(node: TypeNode): boolean {
    return (this.#uses.get(node) ?? 0) > 1 && node.kind !== 'ref' && this.#size(node) > MIN_DECLARED
  }

  /** Approximate number of characters of a node that is written out. */
  #size(node: TypeNode): number {
    const known = this.#sizes.get(node)
    if (known !== undefined) return known
    // A type contains itself only through a reference, which is written as a name, so the recursion ends.
    const parts = node.kind === 'ref' ? [] : partsOf(node)
    const own =
      node.kind === 'object'
        ? node.members.reduce((sum, { name, doc }) => sum + name.length + doc.join().length, 4)
        : 8
    const size = parts.reduce(
      (sum, part) => sum + (this.#isShared(part) ? NAME_LENGTH : this.#size(part)),
      own,
    )
    this.#sizes.set(node, size)
    return size
  }

  /** A digest of the type alone (FNV-1a), so that names do not depend on other tools. */
  #digest(node: TypeNode): number {
    const known = this.#digests.get(node)
    if (known !== undefined) return known
    const parts = node.kind === 'ref' ? [] : partsOf(node).map((part) => this.#digest(part))
    const text = JSON.stringify([
      node.kind,
      node.kind === 'object' ? node.members.map(({ name, isOptional, doc }) => [name, isOptional, doc]) : 0,
      node.kind === 'literal' ? node.value : 0,
      node.kind === 'primitive' ? node.name : 0,
      parts,
    ])
    let digest = 0x811c9dc5
    for (let index = 0; index < text.length; index += 1)
      digest = Math.imul(digest ^ text.charCodeAt(index), 0x01000193) >>> 0
    this.#digests.set(node, digest)
    return digest
  }
}

const MAX_NAME = 60

/** `Simple User` → `SimpleUser`. */
function typeName(title: string | undefined): string {
  const words = (title ?? '').split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  const name = words
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')
    .slice(0, MAX_NAME)
  return /^[A-Z]/.test(name) ? name : `Shared${name}`
}

function compare(left: string, right: string): number {
  if (left === right) return 0
  return left < right ? -1 : 1
}
