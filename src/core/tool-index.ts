import { atOnce, inPieces } from './breather.ts'
import type { Tool } from './tool.ts'
import { compareVersions, plainVersion } from './tool-id.ts'

/**
 * Every tool of the server by every name, made once; catalogs are views of it. An id goes before a function name, and that
 * before a catalog id; no two tools that are served together share a name anyway (`checkShared`, `joinTools`).
 */
export class ToolIndex {
  readonly tools: readonly Tool[]
  readonly #places: ToolPlaces

  constructor(tools: readonly Tool[], places: ToolPlaces = atOnce(findPlaces(tools))) {
    this.tools = Object.freeze([...tools])
    this.#places = places
  }

  /** The same without holding the serving thread: there may be thousands of tools. */
  static async inPieces(tools: readonly Tool[]): Promise<ToolIndex> {
    return new ToolIndex(tools, await inPieces(findPlaces(tools)))
  }

  placeOfId(id: string): number | undefined {
    return this.#places.byId.get(id)
  }

  placeOfRef(base: string, version: string): number | undefined {
    return this.#places.byRef.get(refText(base, version)) ?? this.#versionOf(base, version)
  }

  /** The same by another name than its base. */
  #versionOf(name: string, version: string): number | undefined {
    return this.versionsOf(name).find(
      (place) => plainVersion(this.tools[place]?.parts.version ?? '') === version,
    )
  }

  /** By base name, function name or catalog id. */
  versionsOf(base: string): readonly number[] {
    return this.#places.versions.get(base) ?? []
  }
}

function refText(base: string, version: string): string {
  return `${base}@${version}`
}

interface ToolPlaces {
  readonly byId: ReadonlyMap<string, number>
  /** By base name and plain version, as requests are read. */
  readonly byRef: ReadonlyMap<string, number>
  /** Places of the versions of each tool by all its names, oldest first. */
  readonly versions: ReadonlyMap<string, readonly number[]>
}

function* findPlaces(tools: readonly Tool[]): Generator<undefined, ToolPlaces> {
  const byId = new Map<string, number>()
  const byRef = new Map<string, number>()
  const versions = new Map<string, number[]>()
  for (const [place, { id, parts }] of tools.entries()) {
    yield
    byId.set(id, place)
    byRef.set(refText(parts.base, plainVersion(parts.version)), place)
    const known = versions.get(parts.base)
    if (known === undefined) versions.set(parts.base, [place])
    else known.push(place)
  }
  const versionAt = (place: number): string => tools[place]?.parts.version ?? ''
  for (const places of versions.values()) {
    if (places.length > 1) places.sort((left, right) => compareVersions(versionAt(left), versionAt(right)))
  }
  for (const key of ['name', 'catalogId'] as const) {
    for (const tool of tools) {
      yield
      const places = versions.get(tool.parts.base)
      if (places !== undefined && !versions.has(tool[key])) versions.set(tool[key], places)
    }
  }
  return { byId, byRef, versions }
}
