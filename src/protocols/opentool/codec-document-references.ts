import { childPointer } from '#kernel/base/json'
import {
  FindingList,
  isReference,
  MAX_ADDED,
  MAX_SCHEMA_DEPTH,
  mapMembers,
  type OpenToolDocument,
  OpenToolDocumentError,
  type OpenToolFunction,
  type OpenToolReference,
  type OpenToolReturn,
  type OpenToolSchema,
  type OpenToolSchemas,
  type OpenToolValueSchema,
} from './codec-document.ts'
import { referenceName } from './codec-document-schema.ts'

/*
 * References in an OpenTool document: checks their cycles and cost, and inlines them.
 * Used by the document reader, the client, the source and the converters.
 * Invariant: checking takes time proportional to the document as written, however far its references would
 * expand (OTS-22, OTS-26).
 */

/**
 * The document with every `$ref` inlined, `schemas` included. A reference that closes a cycle becomes a
 * free-form object with a note. Equal parts are shared, so treat the result as read-only. Throws
 * `OpenToolDocumentError` for a document that cannot be inlined.
 */
export function dereference(document: OpenToolDocument): OpenToolDocument {
  const findings = new FindingList('lenient')
  checkReferences(document, findings)
  if (findings.hasErrors) throw new OpenToolDocumentError(findings.all())
  const { schemas, functions, ...rest } = document
  const inliner = new Inliner(schemas ?? {})
  // Named schemas are inlined first, so that a cycle is always broken at the same reference.
  const inlined = schemas === undefined ? {} : { schemas: inliner.inlineNamed(schemas) }
  return { ...rest, functions: functions.map((each) => inliner.inlineFunction(each)), ...inlined }
}

class Inliner {
  readonly #schemas: OpenToolSchemas
  readonly #named = new Map<OpenToolSchema, OpenToolValueSchema | 'open'>()

  constructor(schemas: OpenToolSchemas) {
    this.#schemas = schemas
  }

  inlineFunction(written: OpenToolFunction): OpenToolFunction {
    const { parameters, return: returned, stream, ...rest } = written
    return {
      ...rest,
      parameters: parameters.map((parameter) => this.#inlineSchema(parameter)),
      ...(returned === undefined ? {} : { return: this.#inlineSchema(returned) }),
      ...(stream === undefined ? {} : { stream: mapMembers(stream, (event) => this.#inlineSchema(event)) }),
    }
  }

  inlineNamed(schemas: OpenToolSchemas): OpenToolSchemas {
    return mapMembers(schemas, (schema) => this.#inlineOnce(schema))
  }

  #inlineSchema<Value extends OpenToolReturn>(value: Value): Value {
    return { ...value, schema: this.#inline(value.schema) }
  }

  #inline(schema: OpenToolSchema): OpenToolValueSchema {
    return isReference(schema) ? this.#follow(schema) : this.#inlineValue(schema)
  }

  #inlineValue(schema: OpenToolValueSchema): OpenToolValueSchema {
    const { properties, items, ...rest } = schema
    return {
      ...rest,
      ...(properties === undefined
        ? {}
        : { properties: mapMembers(properties, (member) => this.#inline(member)) }),
      ...(items === undefined ? {} : { items: this.#inline(items) }),
    }
  }

  #follow(reference: OpenToolReference): OpenToolValueSchema {
    const target = targetOf(this.#schemas, reference)
    const { $ref } = reference
    if (target === undefined) {
      // Only a document that was not read with `load` can have such a reference.
      const message = `\`schemas\` has no schema for the reference ${JSON.stringify($ref)}.`
      throw new OpenToolDocumentError([{ path: '', rule: 'OTS-21', level: 'error', message }])
    }
    if (this.#named.get(target) !== 'open') return this.#inlineOnce(target)
    const description = `A recursive ${referenceName($ref)}, not written out any further.`
    return { type: 'object', description, properties: {} }
  }

  #inlineOnce(named: OpenToolSchema): OpenToolValueSchema {
    const known = this.#named.get(named)
    if (known !== undefined && known !== 'open') return known
    this.#named.set(named, 'open')
    const inlined = this.#inline(named)
    this.#named.set(named, inlined)
    return inlined
  }
}

interface Cost {
  /** Approximate length of the schema's JSON text. */
  readonly characters: number
  /** Levels of JSON; each reference counts as one. */
  readonly height: number
}

const NO_COST: Cost = { characters: 0, height: 0 }

/** Every schema of a document, with its location. */
function* schemasOf(document: OpenToolDocument): Iterable<readonly [string, OpenToolSchema]> {
  const { schemas = {}, functions } = document
  for (const [name, schema] of Object.entries(schemas)) yield [childPointer('/schemas', name), schema]
  for (const [index, { parameters, return: returned, stream = {} }] of functions.entries()) {
    const path = `/functions/${index}`
    for (const [at, { schema }] of parameters.entries()) yield [`${path}/parameters/${at}/schema`, schema]
    if (returned !== undefined) yield [`${path}/return/schema`, returned.schema]
    for (const [name, { schema }] of Object.entries(stream)) {
      yield [`${childPointer(`${path}/stream`, name)}/schema`, schema]
    }
  }
}

/** The schema that a reference names; own properties only (OTS-21). */
export function targetOf(schemas: OpenToolSchemas, { $ref }: OpenToolReference): OpenToolSchema | undefined {
  const name = referenceName($ref)
  return name !== undefined && Object.hasOwn(schemas, name) ? schemas[name] : undefined
}

/**
 * Finds cycles and references that would expand beyond the limits, in time proportional to the document as
 * written (OTS-22, OTS-26).
 */
export function checkReferences(document: OpenToolDocument, findings: FindingList): void {
  const expansion = new ExpansionCost(document.schemas ?? {}, findings)
  for (const [path, schema] of schemasOf(document)) {
    const { height } = expansion.cost(schema, 1)
    if (height <= MAX_SCHEMA_DEPTH && !expansion.tooDeep) continue
    const message = `With its references written out the schema is nested deeper than ${MAX_SCHEMA_DEPTH} levels.`
    findings.report('error', path, 'OTS-26', message)
    return
  }
  if (expansion.addsTooMuch()) {
    const message = 'Written out, its references make the document many times larger.'
    findings.report('error', '', 'OTS-26', message)
  }
}

class ExpansionCost {
  /** Characters that all references of the document add. */
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
    return this.#added > MAX_ADDED.characters + MAX_ADDED.times * this.#written
  }

  /** Computes each schema's cost once: at its location, or earlier, if a reference names it. */
  cost(schema: OpenToolSchema, level: number): Cost {
    const known = this.#known.get(schema)
    if (known !== undefined && known !== 'open') return known
    if (level > MAX_SCHEMA_DEPTH) this.tooDeep = true
    if (this.tooDeep) return NO_COST
    this.#known.set(schema, 'open')
    const cost = isReference(schema) ? this.#costOfReference(schema, level) : this.#costOfValue(schema, level)
    this.#known.set(schema, cost)
    return cost
  }

  #costOfReference(reference: OpenToolReference, level: number): Cost {
    const target = targetOf(this.#schemas, reference)
    this.#written += reference.$ref.length
    if (target === undefined) return NO_COST
    if (this.#known.get(target) === 'open') {
      this.#reportCycle(reference, target)
      return NO_COST
    }
    const { characters, height } = this.cost(target, level + 1)
    this.#added += characters
    return { characters, height: height + 1 }
  }

  #reportCycle(reference: OpenToolReference, target: OpenToolSchema): void {
    if (this.#recursive.has(target)) return
    this.#recursive.add(target)
    const path = childPointer('/schemas', referenceName(reference.$ref) ?? '')
    const message = 'The schema refers to itself, so it cannot be written out.'
    this.#findings.report('repaired', path, 'OTS-22', message)
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
