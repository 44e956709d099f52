import { shortHash } from '#core/hash'
import { isFunctionName } from './codec-document.ts'

/** A name somebody else gave; `key` tells two apart that want the same name. */
export interface WantedName {
  readonly key: string
  readonly name: string
}

/** Function names of an OpenTool document and where they came from (OTS-84). */
export interface NameMap {
  /** Key → function name. */
  readonly nameOf: ReadonlyMap<string, string>
  /** Function name → key: how a call is dispatched. */
  readonly keyOf: ReadonlyMap<string, string>
}

const LONGEST = 64

/** A legal name for each: legal ones stay as they are, the others give way. Keys are distinct. */
export function assignNames(wanted: readonly WantedName[]): NameMap {
  const keyOf = new Map<string, string>()
  const nameOf = new Map<string, string>()
  const assign = (key: string, name: string) => {
    keyOf.set(name, key)
    nameOf.set(key, name)
  }
  const others = wanted.filter(({ key, name }) => {
    if (!isFunctionName(name) || keyOf.has(name)) return true
    assign(key, name)
    return false
  })
  for (const { key, name } of others) assign(key, freeName(key, name, keyOf))
  // In the order asked for, whoever was named first.
  return { keyOf, nameOf: new Map(wanted.map(({ key }) => [key, nameOf.get(key) ?? ''])) }
}

/** The name for one alone: `get.weather` → `get_weather`. */
export function legalName(original: string): string {
  return freeName(original, original, new Map())
}

function freeName(key: string, wanted: string, taken: ReadonlyMap<string, string>): string {
  const legal = wanted.replaceAll(/[^A-Za-z0-9_-]/gu, '_') || '_'
  if (legal.length <= LONGEST && !taken.has(legal)) return legal
  for (let attempt = 0; ; attempt += 1) {
    const digest = shortHash(attempt === 0 ? key : `${key}\n${attempt}`)
    const name = `${legal.slice(0, LONGEST - digest.length - 1)}_${digest}`
    if (!taken.has(name)) return name
  }
}
