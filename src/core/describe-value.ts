const LONGEST = 80

/** A value that somebody wrote, short enough to repeat to them. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return shorten(JSON.stringify(value))
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (value === undefined) return 'missing'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

function shorten(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text
}
