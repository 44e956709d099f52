import { type JsonObject, type JsonValue, setMember } from '#core/json'
import type { Binding } from './binding.ts'

/**
 * What a `Link` of relation `next` asks for, as members of the input. Only declared query parameters are taken: the
 * next page is another call through the same accepted binding, never an address that an answer names.
 */
export function nextPage(link: string | null, { parameters, baseUrl }: Binding): JsonObject | undefined {
  const target = link === null ? undefined : linkTarget(link, 'next')
  const url = target === undefined ? null : URL.parse(target, baseUrl)
  if (url === null) return undefined
  const next: Record<string, JsonValue> = {}
  for (const { property, name, in: place, isNumber } of parameters) {
    const value = place === 'query' ? url.searchParams.get(name) : null
    if (value === null) continue
    const number = Number(value)
    setMember(next, property, isNumber && value !== '' && Number.isFinite(number) ? number : value)
  }
  return Object.keys(next).length === 0 ? undefined : next
}

/** RFC 8288, as far as pages go. */
function linkTarget(header: string, relation: string): string | undefined {
  for (const part of header.slice(0, 8_192).split(/,(?=\s*<)/)) {
    const [, target, parameters = ''] = /^\s*<([^<>]*)>(.*)$/.exec(part) ?? []
    const [, quoted, bare] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,]+))/i.exec(parameters) ?? []
    const relations = (quoted ?? bare ?? '').toLowerCase().split(/\s+/)
    if (target !== undefined && relations.includes(relation)) return target
  }
  return undefined
}
