import { shortHash } from '#core/short-hash'
import type { SourceKind } from '#core/tool'

/** The grammar sets no limit; whoever reads a list does. */
const LONGEST_LOCAL = 128
const LONGEST_FUNCTION_NAME = 64
const LONGEST_CATALOG_ID = 256
/** `_` or `-`, and eight digits. */
const SUFFIX = 9

/** The toolkit that the tools of a source are in. */
export function toolkitOf(sourceKey: string): string {
  return plain(sourceKey)
}

/**
 * The names that tools get in their ids: other characters become `_`, and a name that is taken gets `_` and eight
 * digits of its native name. Names that were given once stay; among new ones a native name that needs no change comes
 * first, then code unit order, so that every process gives the same.
 */
export function giveLocalNames(
  nativeNames: readonly string[],
  given: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const names = new Map(given)
  const taken = new Set(given.values())
  for (const native of asWrittenFirst(new Set(nativeNames))) {
    if (names.has(native)) continue
    const local = freeName(native, taken)
    taken.add(local)
    names.set(native, local)
  }
  return names
}

/** Function name for models: `Toolkit_Name` within 64 characters. */
export function functionNameOf(toolkit: string, local: string): string {
  return shortenTo(`${toolkit}_${local}`, LONGEST_FUNCTION_NAME, '_')
}

/** openwop §7.1: the id of each source's tools; bytes that the grammar lacks are percent-encoded. */
const CATALOG_IDS = {
  'node-pack': (toolkit, native) => `openwop:${toolkit}.${encode(native)}`,
  workflow: (toolkit, native) => `workflow:${toolkit}.${encode(native)}`,
  mcp: (toolkit, native) => `mcp:${toolkit}.${encode(native)}`,
  connector: (toolkit, native) => `connector:${toolkit}.${encode(native)}`,
  'host-extension': (toolkit, _native, local, vendor) =>
    `x-host-${vendorLabel(vendor, toolkit)}-${label(local)}`,
} satisfies Record<
  SourceKind,
  (toolkit: string, native: string, local: string, vendor: string | undefined) => string
>

export function catalogIdOf(
  kind: SourceKind,
  {
    toolkit,
    nativeName,
    local,
    vendor,
  }: {
    readonly toolkit: string
    readonly nativeName: string
    readonly local: string
    readonly vendor?: string | undefined
  },
): string {
  return shortenTo(CATALOG_IDS[kind](toolkit, nativeName, local, vendor), LONGEST_CATALOG_ID, '-')
}

function freeName(native: string, taken: ReadonlySet<string>): string {
  const wanted = shortenTo(plain(native), LONGEST_LOCAL, '_', native)
  if (!taken.has(wanted)) return wanted
  for (let round = 0; ; round += 1) {
    const digits = shortHash(round === 0 ? native : `${native}\0${round}`)
    const name = `${wanted.slice(0, LONGEST_LOCAL - SUFFIX)}_${digits}`
    if (!taken.has(name)) return name
  }
}

function plain(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9_]/gu, '_') || '_'
}

function asWrittenFirst(names: ReadonlySet<string>): readonly string[] {
  const { same = [], changed = [] } = Object.groupBy(names, (name) =>
    plain(name) === name ? 'same' : 'changed',
  )
  // Code unit order.
  return [...same.sort(), ...changed.sort()]
}

/** Cut where it is too long, with eight digits of the whole so that two cuts stay two. */
function shortenTo(text: string, longest: number, join: '_' | '-', whole = text): string {
  if (text.length <= longest) return text
  return `${text.slice(0, longest - SUFFIX).replace(/%.?$/, '')}${join}${shortHash(whole)}`
}

function encode(native: string): string {
  const kept = native.toWellFormed().replaceAll(/[^A-Za-z0-9._/-]/gu, encodeCharacter)
  return kept === '' ? '_' : kept
}

function encodeCharacter(character: string): string {
  return [...Buffer.from(character, 'utf8')]
    .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`)
    .join('')
}

/** A vendor that is a label already stays as it was written, `-` and all. */
function vendorLabel(vendor: string | undefined, toolkit: string): string {
  return vendor !== undefined && /^[a-z][a-z0-9-]*$/.test(vendor) ? vendor : label(plain(vendor ?? toolkit))
}

/** A label of a host extension's id. Small letters, digits and `-` only: whatever else was lost is told apart by digits. */
function label(text: string): string {
  const made = text.toLowerCase().replaceAll('_', '-')
  if (/^[a-z][a-z0-9_]*$/.test(text)) return made
  return `${/^[a-z]/.test(made) ? '' : 'x'}${made}-${shortHash(text)}`
}
