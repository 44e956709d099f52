import { shortHash } from '#core/hash'
import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#core/json'
import { loosenReferences } from '#core/schema/inline'
import type { Documents, Target } from './documents.ts'
import type { Located } from './located.ts'
import { lowerSchema } from './lower-schema.ts'
import type { Dialect } from './operation.ts'

export type Direction = 'input' | 'output'

/** What lowering one schema needs to know. */
export interface Lowering {
  readonly documents: Documents
  readonly dialect: Dialect
  readonly direction: Direction
  warn(text: string): void
  /** The name of what a reference points to, under `$defs`; `undefined` when it leads nowhere. */
  refer(reference: string, document: string): string | undefined
}

interface Definition {
  readonly uses: Set<string>
  schema: JsonValue
  /** Characters of the schema; counted when somebody asks. */
  size?: number
  /** The schema for tools in which others are cut. */
  loosened?: JsonValue
}

/**
 * Characters of what one schema refers to. Objects of large services refer to each other until all of them are in every
 * answer (Stripe: 690 000 characters for each of 452 tools), which nobody reads and every tool would be checked for.
 */
const MOST_REFERRED = 32_768
/** Of what it refers to itself, which is most of what it says. */
const MOST_REFERRED_FIRST = 262_144

export interface ShelfOptions {
  readonly documents: Documents
  readonly dialect: Dialect
  readonly direction: Direction
  warn(text: string): void
}

/** Schemas of one direction, each lowered once however many operations use it. */
export class SchemaShelf {
  readonly #options: ShelfOptions
  readonly #definitions = new Map<string, Definition>()
  readonly #names = new Map<string, string>()
  readonly #waiting: { readonly definition: Definition; readonly target: Target }[] = []

  constructor(options: ShelfOptions) {
    this.#options = options
  }

  /** The schema, with the names of the definitions it uses added to `uses`. */
  lower(located: Located | undefined, uses: Set<string>): JsonObject {
    if (located === undefined) return {}
    const lowered = lowerSchema(located, this.#loweringFor(uses))
    // One after the other instead of inside each other: a long chain of references takes no stack.
    for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop()) {
      next.definition.schema = lowerSchema(next.target, this.#loweringFor(next.definition.uses))
    }
    if (isJsonObject(lowered)) return lowered
    return lowered === false ? { not: {} } : {}
  }

  /** What a lowered schema says directly, or by the reference it consists of. */
  followed(schema: JsonObject): JsonObject {
    const name = typeof schema.$ref === 'string' ? schema.$ref.slice('#/$defs/'.length) : undefined
    const target = name === undefined ? schema : this.#definitions.get(name)?.schema
    return isJsonObject(target) ? target : {}
  }

  /**
   * A lowered schema with the definitions it uses, and the ones they use in turn: all of them, or as many steps of
   * references as fit. What lies behind is any value, and nothing that fitted is refused for that.
   */
  complete(schema: JsonObject, uses: ReadonlySet<string>): JsonObject {
    if (uses.size === 0) return schema
    const { kept, cut } = this.#reachable(uses)
    const definitions: Record<string, JsonValue> = {}
    // Sorted, so that the same schema reads the same whatever was lowered before it.
    for (const name of [...kept, ...cut].sort())
      setMember(definitions, name, cut.has(name) ? {} : this.#shown(name, cut.size > 0))
    const root = cut.size === 0 ? schema : loosenReferences(schema)
    return { ...(isJsonObject(root) ? root : {}), $defs: definitions }
  }

  /** Step by step, because what stands near says more than what stands far. */
  #reachable(uses: ReadonlySet<string>): { kept: ReadonlySet<string>; cut: ReadonlySet<string> } {
    const kept = new Set<string>()
    let next: ReadonlySet<string> = uses
    let size = 0
    while (next.size > 0) {
      for (const name of next) size += this.#sizeOf(name)
      if (size > (kept.size === 0 ? MOST_REFERRED_FIRST : MOST_REFERRED)) return { kept, cut: next }
      for (const name of next) kept.add(name)
      const used = [...next].flatMap((name) => [...(this.#definitions.get(name)?.uses ?? [])])
      next = new Set(used.filter((name) => !kept.has(name)))
    }
    return { kept, cut: next }
  }

  #sizeOf(name: string): number {
    const definition = this.#definitions.get(name)
    if (definition === undefined) return 0
    definition.size ??= JSON.stringify(definition.schema).length
    return definition.size
  }

  #shown(name: string, loosened: boolean): JsonValue {
    const definition = this.#definitions.get(name)
    if (definition === undefined) return {}
    if (!loosened) return definition.schema
    definition.loosened ??= loosenReferences(definition.schema)
    return definition.loosened
  }

  #loweringFor(uses: Set<string>): Lowering {
    return {
      ...this.#options,
      warn: (text) => this.#options.warn(text),
      refer: (reference, document) => this.#refer(reference, document, uses),
    }
  }

  #refer(reference: string, document: string, uses: Set<string>): string | undefined {
    const target = this.#options.documents.find(reference, document)
    if (target === undefined) {
      this.#options.warn(`The reference ${JSON.stringify(reference)} leads nowhere; anything fits there.`)
      return undefined
    }
    const name = this.#nameOf(target)
    uses.add(name)
    if (!this.#definitions.has(name)) {
      const definition: Definition = { uses: new Set(), schema: {} }
      // Known before it is lowered, so that a schema that contains itself ends.
      this.#definitions.set(name, definition)
      this.#waiting.push({ definition, target })
    }
    return name
  }

  /** Follows from where a schema stands and from nothing else, so that names never move (rule 32). */
  #nameOf({ id }: Target): string {
    const known = this.#names.get(id)
    if (known !== undefined) return known
    const { documents, dialect } = this.#options
    const home = `${documents.root.document}#${dialect === '2.0' ? '/definitions/' : '/components/schemas/'}`
    const own = id.startsWith(home) ? id.slice(home.length) : ''
    const last = (id.split('/').at(-1) ?? '').replaceAll(/[^A-Za-z0-9._-]/g, '_').slice(-40)
    const name = /^[A-Za-z0-9._-]+$/.test(own)
      ? own
      : `${last}_${shortHash(localPart(id, documents.root.document))}`
    this.#names.set(id, name)
    return name
  }
}

/** Without the folder of the document: the same files elsewhere are the same schemas. */
function localPart(id: string, root: string): string {
  const folder = root.slice(0, root.lastIndexOf('/') + 1)
  return id.startsWith(folder) ? id.slice(folder.length) : id
}
