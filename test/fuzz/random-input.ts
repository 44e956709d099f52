/** A small random generator: the same numbers for the same seed (mulberry32). */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 to 1, without 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  below(most: number): number {
    return Math.floor(this.next() * most)
  }

  one<T>(list: readonly [T, ...T[]]): T {
    return list[this.below(list.length)] ?? list[0]
  }

  isLucky(chance: number): boolean {
    return this.next() < chance
  }
}

const ODD_TEXTS = [
  ...([
    '',
    ' ',
    '\u0000',
    '\ud800',
    '‮',
    '{',
    '__proto__',
    'constructor',
    'toString',
    'null',
    '-0',
    '1e400',
  ] as const),
  ...([
    '../../etc/passwd',
    '%2e%2e%2f',
    '%00',
    '%',
    "' OR 1=1 --",
    '<script>',
    '$(x)',
    'ünïcödé',
    '👩‍👩‍👧‍👧',
    '\r\nX: y',
  ] as const),
  ...([
    'Echo.Say',
    'Echo_Say',
    'openwop:Echo.Say',
    'Echo.Say@1.0.0',
    'Echo.Say@999',
    'Echo.Nobody',
    '*',
  ] as const),
  ...(['urn:oxp:1.0', 'urn:oxp:99', '2026-07-28', '2025-11-25', 'latest', 'a'.repeat(5_000)] as const),
] as const

const ODD_NUMBERS = [0, -1, 1.5, 1e308, -1e308, 2 ** 53, 2 ** 31, 1e-320, 4_294_967_296] as const

/** Any JSON value, with a bias towards values that often break programs. */
export function anyValue(random: Random, depth = 0): unknown {
  const kind = random.below(depth > 4 ? 5 : 8)
  if (kind === 0) return null
  if (kind === 1) return random.isLucky(0.5)
  if (kind === 2) return random.one(ODD_NUMBERS)
  if (kind <= 4) return anyText(random)
  if (kind === 5) return Array.from({ length: random.below(4) }, () => anyValue(random, depth + 1))
  return Object.fromEntries(
    Array.from({ length: random.below(5) }, () => [anyText(random), anyValue(random, depth + 1)]),
  )
}

export function anyText(random: Random): string {
  if (random.isLucky(0.35)) return random.one(ODD_TEXTS)
  return Array.from({ length: random.below(30) }, () => String.fromCharCode(random.below(0x3ff))).join('')
}

/** A valid request with some members changed, added, doubled or removed. */
export function changed(random: Random, value: unknown, chance = 0.15): unknown {
  if (random.isLucky(chance)) return anyValue(random)
  if (Array.isArray(value)) {
    const items = value.map((item) => changed(random, item, chance))
    return random.isLucky(chance) ? [...items, ...items] : items
  }
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value)
    .filter(() => !random.isLucky(chance))
    .map(([name, member]): [string, unknown] => [
      random.isLucky(chance / 3) ? anyText(random) : name,
      changed(random, member, chance),
    ])
  if (random.isLucky(chance)) members.push([anyText(random), anyValue(random)])
  return Object.fromEntries(members)
}

/** Text of a body: JSON mostly, sometimes cut, doubled, deep, or bytes. */
export function bodyText(random: Random, value: unknown): string {
  const text = JSON.stringify(value) ?? ''
  const way = random.below(20)
  if (way === 0) return text.slice(0, random.below(text.length + 1))
  if (way === 1) return text + text
  if (way === 2) return `${'['.repeat(random.below(3_000))}${text}`
  if (way === 3) return Array.from({ length: 40 }, () => String.fromCharCode(random.below(256))).join('')
  if (way === 4) return text.replace('{', '{"__proto__":{"a":1},')
  return text
}
