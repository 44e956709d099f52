import { isJsonObject, type JsonObject, type JsonValue, pointerSteps } from '#kernel/base/json'

/**
 * The parsed document of a source and all documents that it refers to, and functions to read their nodes. The other modules
 * that read a document use it. Invariant: all documents were loaded before; nothing here fetches or opens a file.
 */

/** A longer chain of references is treated as circular. */
const MAX_CHAIN_LENGTH = 50
/** Maximum number of nested `allOf` levels. */
const MAX_DEPTH = 10

export interface Target extends DocumentNode {
  /** An id that does not depend on the spelling of the reference. */
  readonly id: string
}

export class Documents {
  readonly root: DocumentNode
  readonly #values: ReadonlyMap<string, JsonValue>

  constructor(rootUrl: string, values: ReadonlyMap<string, JsonValue>) {
    this.#values = values
    this.root = { value: values.get(rootUrl) ?? {}, document: rootUrl }
  }

  /** The target of a reference that stands in `document`; `undefined` if there is none. */
  find(reference: string, document: string): Target | undefined {
    const hash = reference.indexOf('#')
    const [address, fragment] =
      hash === -1 ? [reference, ''] : [reference.slice(0, hash), reference.slice(hash + 1)]
    const url = address === '' ? document : URL.parse(address, document)?.href
    const whole = url === undefined ? undefined : this.#values.get(url)
    const pointer = decode(fragment)
    if (url === undefined || whole === undefined || pointer === undefined) return undefined
    const value = follow(whole, pointer)
    return value === undefined ? undefined : { value, document: url, id: `${url}#${pointer}` }
  }

  /** The node, or the end of the chain of references if the node is a reference. */
  resolve(located: DocumentNode | undefined): DocumentNode | undefined {
    let here = located
    for (let step = 0; step < MAX_CHAIN_LENGTH; step += 1) {
      if (here === undefined || !isJsonObject(here.value)) return here
      const { $ref: reference } = here.value
      if (typeof reference !== 'string') return here
      here = this.find(reference, here.document)
    }
    return undefined
  }

  /** A schema and all schemas in its `allOf`, each once. */
  allParts(
    schema: DocumentNode | undefined,
    seen = new Set<JsonValue>(),
    depth = 0,
  ): readonly DocumentNode[] {
    const target = this.resolve(schema)
    if (target === undefined || depth > MAX_DEPTH || seen.has(target.value)) return []
    seen.add(target.value)
    return [...itemsIn(target, 'allOf').flatMap((part) => this.allParts(part, seen, depth + 1)), target]
  }
}

function decode(fragment: string): string | undefined {
  try {
    const pointer = decodeURIComponent(fragment)
    return pointer === '' || pointer.startsWith('/') ? pointer : undefined
  } catch {
    return undefined
  }
}

function follow(whole: JsonValue, pointer: string): JsonValue | undefined {
  let node: JsonValue | undefined = whole
  for (const step of pointerSteps(pointer)) {
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, step)) return undefined
    node = isJsonObject(node) ? node[step] : node[Number(step)]
  }
  return node
}

/** A part of a document, and the URL of the document, to which its relative references refer. */
export interface DocumentNode {
  readonly value: JsonValue
  readonly document: string
}

export interface LocatedObject extends DocumentNode {
  readonly value: JsonObject
}

export function memberOf({ value, document }: DocumentNode, name: string): DocumentNode | undefined {
  if (!isJsonObject(value) || !Object.hasOwn(value, name)) return undefined
  const member = value[name]
  return member === undefined ? undefined : { value: member, document }
}

export function isLocatedObject(located: DocumentNode | undefined): located is LocatedObject {
  return located !== undefined && isJsonObject(located.value)
}

export function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value.toWellFormed().trim() : undefined
}

export function textsOf(value: JsonValue | undefined): readonly string[] {
  return itemsOf(value).filter((item) => typeof item === 'string')
}

export function itemsOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : []
}

/** The items of a member that is a list. */
export function itemsIn(owner: DocumentNode, name: string): readonly DocumentNode[] {
  const { document } = owner
  return itemsOf(memberOf(owner, name)?.value).map((value) => ({ value, document }))
}

/** The entries of a member that is an object. */
export function entriesIn(owner: DocumentNode, name: string): readonly (readonly [string, DocumentNode])[] {
  const { document } = owner
  return entriesOf(memberOf(owner, name)?.value).map(([key, value]) => [key, { value, document }])
}

export function entriesOf(value: JsonValue | undefined): readonly (readonly [string, JsonValue])[] {
  return isJsonObject(value) ? Object.entries(value) : []
}
