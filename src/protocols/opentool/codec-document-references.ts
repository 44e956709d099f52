import { childPointer } from '#core/json'
import {
  isReference,
  type OpenToolDocument,
  type OpenToolReference,
  type OpenToolReturn,
  type OpenToolSchema,
  type OpenToolSchemas,
  type OpenToolValueSchema,
} from './codec-document.ts'
import type { FindingList } from './codec-document-finding.ts'
import { ADDED, DEEPEST_SCHEMA } from './codec-document-limits.ts'
import { referenceName } from './codec-document-schema.ts'

/** What a schema costs with its references written out. */
interface Cost {
  /** About what it takes to write. */
  readonly characters: number
  /** Levels of JSON, each reference counted as one. */
  readonly height: number
}

const NOTHING: Cost = { characters: 0, height: 0 }

/** Every schema a document holds, with its place. */
export function* schemasOf(document: OpenToolDocument): Iterable<readonly [string, OpenToolSchema]> {
  const { schemas = {}, functions } = document
  for (const [name, schema] of Object.entries(schemas)) yield [childPointer('/schemas', name), schema]
  for (const [index, { parameters, return: returned, stream = {} }] of functions.entries()) {
    const path = `/functions/${index}`
    for (const [place, { schema }] of parameters.entries()) {
      yield [`${path}/parameters/${place}/schema`, schema]
    }
    const returns: [string, OpenToolReturn | undefined][] = Object.entries(stream).map(([name, event]) => [
      childPointer(`${path}/stream`, name),
      event,
    ])
    for (const [place, value] of [[`${path}/return`, returned] as const, ...returns]) {
      if (value !== undefined) yield [`${place}/schema`, value.schema]
    }
  }
}

/** The schema a reference names; by own property only (OTS-21). */
export function targetOf(schemas: OpenToolSchemas, { $ref }: OpenToolReference): OpenToolSchema | undefined {
  const name = referenceName($ref)
  return name !== undefined && Object.hasOwn(schemas, name) ? schemas[name] : undefined
}

/**
 * Finds cycles and references that would unfold without measure, in time proportional to the document as
 * written (OTS-22, OTS-26).
 */
export function checkReferences(document: OpenToolDocument, findings: FindingList): void {
  const survey = new Survey(document.schemas ?? {}, findings)
  for (const [path, schema] of schemasOf(document)) {
    const { height } = survey.cost(schema, 1)
    if (height <= DEEPEST_SCHEMA && !survey.tooDeep) continue
    findings.error(
      path,
      'OTS-26',
      `With its references written out the schema is nested deeper than ${DEEPEST_SCHEMA} levels.`,
    )
    return
  }
  if (survey.addsTooMuch()) {
    findings.error('', 'OTS-26', 'Written out, its references make the document many times larger.')
  }
}

class Survey {
  /** What all references of the document add, each written once. */
  #added = 0
  #written = 0
  tooDeep = false
  readonly #schemas: OpenToolSchemas
  readonly #findings: FindingList
  readonly #recursive = new Set<OpenToolSchema>()
  readonly #known = new Map<OpenToolSchema, Cost | 'open'>()

  constructor(schemas: OpenToolSchemas, findings: FindingList) {
    this.#schemas = schemas
    this.#findings = findings
  }

  addsTooMuch(): boolean {
    return this.#added > ADDED.characters + ADDED.times * this.#written
  }

  /** Each schema is costed once: where it stands, or before, where a reference names it. */
  cost(schema: OpenToolSchema, level: number): Cost {
    const known = this.#known.get(schema)
    if (known !== undefined && known !== 'open') return known
    if (level > DEEPEST_SCHEMA) this.tooDeep = true
    if (this.tooDeep) return NOTHING
    this.#known.set(schema, 'open')
    const cost = isReference(schema) ? this.#costOfReference(schema, level) : this.#costOfValue(schema, level)
    this.#known.set(schema, cost)
    return cost
  }

  #costOfReference(reference: OpenToolReference, level: number): Cost {
    const target = targetOf(this.#schemas, reference)
    this.#written += reference.$ref.length
    if (target === undefined) return NOTHING
    if (this.#known.get(target) === 'open') {
      this.#reportCycle(reference, target)
      return NOTHING
    }
    const { characters, height } = this.cost(target, level + 1)
    this.#added += characters
    return { characters, height: height + 1 }
  }

  #reportCycle(reference: OpenToolReference, target: OpenToolSchema): void {
    if (this.#recursive.has(target)) return
    this.#recursive.add(target)
    this.#findings.tolerate(
      childPointer('/schemas', referenceName(reference.$ref) ?? ''),
      'OTS-22',
      'The schema refers to itself, so it cannot be written out.',
    )
  }

  #costOfValue(schema: OpenToolValueSchema, level: number): Cost {
    const { properties = {}, items, ...rest } = schema
    let { characters, height } = writtenCost(rest)
    this.#written += characters
    const add = (cost: Cost, levels: number) => {
      characters += cost.characters
      height = Math.max(height, cost.height + levels)
    }
    for (const [name, property] of Object.entries(properties)) {
      add(this.cost(property, level + 2), 2)
      characters += name.length
    }
    if (items !== undefined) add(this.cost(items, level + 1), 1)
    return { characters, height }
  }
}

/** Of a value without references. */
function writtenCost(value: unknown): Cost {
  if (typeof value === 'string') return { characters: value.length + 2, height: 0 }
  if (typeof value !== 'object' || value === null) return { characters: 8, height: 0 }
  let characters = 2
  let height = 0
  for (const [name, member] of Object.entries(value)) {
    const cost = writtenCost(member)
    characters += cost.characters + name.length + 4
    height = Math.max(height, cost.height)
  }
  return { characters, height: height + 1 }
}
