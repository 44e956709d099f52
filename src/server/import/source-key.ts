import type { FoundSource } from './found-source.ts'

const KEY = /^[A-Za-z0-9_]{1,64}$/
/** Words that say nothing about a service. */
const EMPTY_WORDS = /^(?:api|www|mcp|server|openapi|swagger|com|org|net|io|dev|app|the|of|for|rest|v\d+)$/i

export function isSourceKey(text: string): boolean {
  return KEY.test(text)
}

/** A key for a source, from what it calls itself or where it is: the toolkit of its tools. */
export function suggestKey({ name, options }: Pick<FoundSource, 'name' | 'options'>): string {
  const { url, file } = options
  const place = typeof url === 'string' ? new URL(url).hostname : typeof file === 'string' ? file : ''
  return keyFrom(name ?? '') ?? keyFrom(place) ?? 'Imported'
}

function keyFrom(text: string): string | undefined {
  const words = text
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '' && !EMPTY_WORDS.test(word) && !/^\d+$/.test(word))
  const key = words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('')
  return key === '' ? undefined : key.slice(0, 32)
}
