import type { Tool } from './tool.ts'
import { compareVersions, plainVersion } from './tool-id.ts'

/**
 * Every tool of the server by every name, made once; catalogs are views of it. An id goes before a function name, and that
 * before a catalog id; no two tools that are served together share a name anyway (`checkShared`, `joinTools`).
 */
export class ToolIndex {
  readonly tools: readonly Tool[]
  readonly #byId: ReadonlyMap<string, number>
  /** By base name and plain version, as requests are read. */
  readonly #byRef: ReadonlyMap<string, number>
  /** Places of the versions of each tool by all its names, oldest first. */
  readonly #versions: ReadonlyMap<string, readonly number[]>

  constructor(tools: readonly Tool[]) {
    this.tools = Object.freeze([...tools])
    this.#byId = new Map(tools.map((tool, place) => [tool.id, place]))
    this.#byRef = new Map(
      tools.map(({ parts }, place) => [refText(parts.base, plainVersion(parts.version)), place]),
    )
    this.#versions = versionPlaces(tools)
  }

  placeOfId(id: string): number | undefined {
    return this.#byId.get(id)
  }

  placeOfRef(base: string, version: string): number | undefined {
    return this.#byRef.get(refText(base, version)) ?? this.#versionOf(base, version)
  }

  /** The same by another name than its base. */
  #versionOf(name: string, version: string): number | undefined {
    return this.versionsOf(name).find(
      (place) => plainVersion(this.tools[place]?.parts.version ?? '') === version,
    )
  }

  /** By base name, function name or catalog id. */
  versionsOf(base: string): readonly number[] {
    return this.#versions.get(base) ?? []
  }
}

function refText(base: string, version: string): string {
  return `${base}@${version}`
}

function versionPlaces(tools: readonly Tool[]): ReadonlyMap<string, readonly number[]> {
  const places = new Map<string, number[]>()
  for (const [place, { parts }] of tools.entries()) {
    const versions = places.get(parts.base)
    if (versions === undefined) places.set(parts.base, [place])
    else versions.push(place)
  }
  const versionAt = (place: number): string => tools[place]?.parts.version ?? ''
  for (const versions of places.values()) {
    versions.sort((left, right) => compareVersions(versionAt(left), versionAt(right)))
  }
  for (const key of ['name', 'catalogId'] as const) {
    for (const tool of tools) {
      const versions = places.get(tool.parts.base)
      if (versions !== undefined && !places.has(tool[key])) places.set(tool[key], versions)
    }
  }
  return places
}
