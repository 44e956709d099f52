import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'

/** A part of a document and the document it is in: where its relative references start. */
export interface Located {
  readonly value: JsonValue
  readonly document: string
}

export interface LocatedObject extends Located {
  readonly value: JsonObject
}

/** A member of something located. */
export function memberOf({ value, document }: Located, name: string): Located | undefined {
  if (!isJsonObject(value) || !Object.hasOwn(value, name)) return undefined
  const member = value[name]
  return member === undefined ? undefined : { value: member, document }
}

export function isLocatedObject(located: Located | undefined): located is LocatedObject {
  return located !== undefined && isJsonObject(located.value)
}

export function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value.toWellFormed().trim() : undefined
}

export function itemsOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : []
}

export function entriesOf(value: JsonValue | undefined): readonly (readonly [string, JsonValue])[] {
  return isJsonObject(value) ? Object.entries(value) : []
}
