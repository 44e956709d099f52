import { hash } from 'node:crypto'
import { readFile, realpath, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import { fault, type ToolError } from '#core/errors'
import type { JsonObject } from '#core/json'
import type { PackOptions } from './options.ts'

const NAMES = z.array(z.string()).default([])

/** `pack.json`, as openwop has it; only what concerns us. */
const PACK_FILE = z.looseObject({
  name: z.string().optional(),
  version: z.string().optional(),
  runtime: z.looseObject({ entry: z.string().optional(), requires: NAMES }).optional(),
})

const PACKAGE_FILE = z.looseObject({
  name: z.string().optional(),
  version: z.string().optional(),
  main: z.string().optional(),
  collet: z.looseObject({ entry: z.string().optional(), requires: NAMES }).optional(),
})

/** A pack on this machine: what to load, and what it says it needs. */
export interface LocatedPack {
  /** The folder that its own files are in. */
  readonly root: string
  /** What it may read of its own: that folder, or for a single file nothing else that lies beside it. */
  readonly own: string
  readonly entry: string
  readonly requires: readonly string[]
  /** Who it is, for its pins: name, version and the digest of its entry file (rules 21 and 32). */
  readonly identity: JsonObject
}

/** Finds the pack's entry and its declared needs, without running any of it. */
export async function locatePack(options: PackOptions, folder: string): Promise<LocatedPack> {
  const start =
    options.path === undefined ? findPackage(options.package ?? '', folder) : resolve(folder, options.path)
  const place = await realpath(start).catch(() => undefined)
  if (place === undefined) throw missing(options)
  if (!(await stat(place)).isDirectory()) {
    return { ...(await describe(dirname(place), place, {}, {})), own: place }
  }
  const pack = await readManifest(join(place, 'pack.json'), PACK_FILE)
  const packed = await readManifest(join(place, 'package.json'), PACKAGE_FILE)
  const said = pack?.runtime?.entry ?? packed?.collet?.entry
  const entry = await findEntry(place, said, packed)
  if (entry === undefined) throw missing(options)
  return await describe(place, entry, pack ?? {}, packed ?? {})
}

/** Its folder: the entry of a package may be hidden behind `exports`, its folder is not. */
function findPackage(name: string, folder: string): string {
  for (const modules of createRequire(join(folder, 'collet.config.js')).resolve.paths(name) ?? []) {
    try {
      return dirname(createRequire(join(modules, 'x.js')).resolve(join(modules, name, 'package.json')))
    } catch {
      // Not in this one.
    }
  }
  return join(folder, 'node_modules', name)
}

async function findEntry(
  place: string,
  said: string | undefined,
  packed: z.output<typeof PACKAGE_FILE> | undefined,
): Promise<string | undefined> {
  const own = packed?.name === undefined ? undefined : resolveOwn(place, packed.name)
  for (const name of [said, own, packed?.main, 'index.js', 'index.mjs', 'index.ts']) {
    if (name === undefined) continue
    const file = await realpath(resolve(place, name)).catch(() => undefined)
    if (file !== undefined && (await stat(file)).isFile()) return file
  }
  return undefined
}

/** What `import` of its own name would give, by its `exports`. */
function resolveOwn(place: string, name: string): string | undefined {
  try {
    return createRequire(join(place, 'package.json')).resolve(name)
  } catch {
    return undefined
  }
}

async function describe(
  root: string,
  entry: string,
  pack: Partial<z.output<typeof PACK_FILE>>,
  packed: Partial<z.output<typeof PACKAGE_FILE>>,
): Promise<LocatedPack> {
  const digest = hash('sha256', await readFile(entry), 'base64url')
  const name = pack.name ?? packed.name
  const version = pack.version ?? packed.version
  return {
    root,
    own: root,
    entry,
    requires: [...new Set([...(pack.runtime?.requires ?? []), ...(packed.collet?.requires ?? [])])],
    identity: {
      type: 'pack',
      ...(name === undefined ? {} : { name }),
      ...(version === undefined ? {} : { version }),
      entry: digest,
    },
  }
}

async function readManifest<S extends z.ZodType>(file: string, schema: S): Promise<z.output<S> | undefined> {
  const text = await readFile(file, 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  try {
    return schema.parse(JSON.parse(text))
  } catch (error) {
    throw fault('upstream_failed', `${file} cannot be read as a manifest.`, { cause: error })
  }
}

function missing({ package: name, path }: PackOptions): ToolError {
  return fault(
    'upstream_failed',
    name === undefined
      ? `There is no pack at ${path}: name a JavaScript file, or a folder with package.json, pack.json or index.js.`
      : `The package ${name} is not installed, or has nothing to import. Install it beside the configuration.`,
  )
}
