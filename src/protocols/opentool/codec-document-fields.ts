import { childPointer, describeValue, type JsonObject, type JsonValue, setMember } from '#core/json'
import type { OpenToolExtensions } from './codec-document.ts'
import type { FindingList } from './codec-document-finding.ts'

/** What reading any part of a document needs. */
export interface Reading {
  readonly findings: FindingList
  /** Names a `$ref` may use: of this document only, and nothing of a prototype (OTS-21). */
  readonly schemaNames: ReadonlySet<string>
}

/** Explicit null in an optional field equals absent (OTS-18). */
export function memberOf(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? (object[name] ?? undefined) : undefined
}

/** A string that must be there. */
export function requiredText(
  object: JsonObject,
  name: string,
  path: string,
  rule: string,
  { findings }: Reading,
): string {
  const value = memberOf(object, name)
  if (typeof value === 'string') return value
  findings.error(childPointer(path, name), rule, `\`${name}\` is ${describeValue(value)}; write a string.`)
  return ''
}

/** `description`, as a part to spread; a string if it is there (OTS-18). */
export function descriptionOf(
  object: JsonObject,
  path: string,
  { findings }: Reading,
): { readonly description?: string } {
  const value = memberOf(object, 'description')
  if (value === undefined) return {}
  if (typeof value === 'string') return { description: value }
  findings.error(
    childPointer(path, 'description'),
    'OTS-18',
    `\`description\` is ${describeValue(value)}; write a string or leave it out.`,
  )
  return {}
}

/** Members the specification does not know are ignored, and kept for the way back (OTS-23). */
export function extensionsOf(object: JsonObject, known: readonly string[]): OpenToolExtensions {
  let kept: Record<string, JsonValue> | undefined
  for (const name of Object.keys(object)) {
    if (known.includes(name)) continue
    kept ??= {}
    setMember(kept, name, object[name] ?? null)
  }
  return kept ?? NONE
}

const NONE: OpenToolExtensions = Object.freeze({})
