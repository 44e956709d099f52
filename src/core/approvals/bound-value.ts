import { fault } from '#core/errors'

const DEEPEST = 200

/**
 * One text per value that a schema library can hand to `run`: JSON, and what libraries make of it (dates, big
 * numbers, maps, sets, bytes, objects of classes). A yes is for exactly this (rule 21).
 */
export function boundValue(value: unknown, depth = 0): string {
  if (depth > DEEPEST) throw unbindable()
  const inner = (member: unknown): string => boundValue(member, depth + 1)
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value)
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value)
    case 'bigint':
      return `${value}n`
    case 'boolean':
    case 'undefined':
      return String(value)
    case 'object':
      return value === null ? 'null' : boundObject(value, inner)
    default:
      throw unbindable()
  }
}

function boundObject(value: object, inner: (member: unknown) => string): string {
  if (Array.isArray(value)) return `[${value.map(inner).join(',')}]`
  if (value instanceof Date) return `Date(${value.getTime()})`
  if (value instanceof URL || value instanceof RegExp) return `${value.constructor.name}(${value})`
  if (value instanceof Map) {
    return `Map(${[...value].map(([key, member]) => `${inner(key)}=>${inner(member)}`).join(',')})`
  }
  if (value instanceof Set) return `Set(${[...value].map(inner).join(',')})`
  if (ArrayBuffer.isView(value)) {
    const { buffer, byteOffset, byteLength } = value
    return `Bytes(${Buffer.from(buffer, byteOffset, byteLength).toString('base64')})`
  }
  const members = Object.entries(value)
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([name, member]) => `${JSON.stringify(name)}:${inner(member)}`)
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = prototype === Object.prototype || prototype === null
  return `${isPlain ? '' : value.constructor.name}{${members.join(',')}}`
}

function unbindable() {
  return fault('internal', 'The input of this tool cannot be approved: it holds something without a text.', {
    developerMessage: 'Let the input schema give plain data, not functions or symbols.',
  })
}
