import { hash } from 'node:crypto'
import { readFile, realpath, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import { describeIssue, fault, ToolError } from '#kernel/base/errors'
import { compareVersions } from '#kernel/base/ids'
import { copyJson, defined, type JsonObject, type JsonValue } from '#kernel/base/json'
import { isDefinedTool, isWorkflow } from '#kernel/tool/define'
import { prepareTool } from '#kernel/tool/prepare-tool'
import type { Egress, PolicyDefinition, StatefulContext, Tool, ToolPolicy } from '#kernel/tool/tool'
import { isWanted, policyOf } from '#sources/common/options'
import type { Discovery, OfferedTool } from '#sources/kit/source'
import type { PackOptions } from './options.ts'

/**
 * Finds a pack on this machine, loads its tools, and describes them as offered tools. Used in the server and in the process of a
 * pack. Invariant: `locatePack` runs no code of the pack.
 */

/** Runs one tool of a pack, in the server's process or in the pack's own. */
export async function runPackTool(
  tool: Tool,
  input: JsonObject,
  context: StatefulContext<unknown>,
): Promise<JsonValue | undefined> {
  const parsed = await tool.parseInput(input)
  if (!parsed.ok) {
    throw new ToolError(`The input is invalid: ${parsed.issues.map(describeIssue).join('; ')}`)
  }
  const value = await tool.run(parsed.input, context)
  if (value === undefined || tool.outputSchema === null) return undefined
  const copied = copyJson(value)
  if (copied.ok) return copied.value
  throw new ToolError('The tool returned a value that is not JSON.', {
    developerMessage: `${copied.pointer}: ${copied.problem}`,
  })
}

/** A tool as its pack describes it, as JSON, because it may come from another process. */
export type DescribedTool = Pick<
  Tool,
  'title' | 'description' | 'inputSchema' | 'outputSchema' | 'requirements' | 'policy'
> & {
  readonly nativeName: string
}

export interface DescribedPack extends Pick<LoadedPack, 'warnings'> {
  readonly tools: readonly DescribedTool[]
}

export function describePack({ tools, warnings }: LoadedPack): DescribedPack {
  const described = [...tools].map(([nativeName, tool]) => {
    const { title, description, inputSchema, outputSchema, requirements, policy } = tool
    return defined({ nativeName, title, description, inputSchema, outputSchema, requirements, policy })
  })
  return { tools: described, warnings }
}

export function offerTools(
  pack: LocatedPack,
  described: DescribedPack,
  options: PackOptions,
  egress: Egress,
): Discovery {
  return {
    identity: pack.identity,
    warnings: described.warnings,
    leftOut: described.tools.map(({ nativeName }) => nativeName).filter((name) => !isWanted(name, options)),
    tools: described.tools
      .filter(({ nativeName }) => isWanted(nativeName, options))
      .map((tool) => offer(tool, options, egress)),
  }
}

function offer({ policy, ...rest }: DescribedTool, options: PackOptions, egress: Egress): OfferedTool {
  return {
    ...rest,
    policy: policyOf(rest.nativeName, options, {
      safetyTier: 'write',
      replay: 'non-deterministic',
      // A trusted author's policy is used unchanged.
      ...(options.trustPolicy ? policy : { egress, ...restrictions(policy) }),
    }),
    // A call needs only the pack itself, whose identity is pinned.
    binding: {},
  }
}

/** The parts of an untrusted pack's policy that only restrict its tools, or inform about them (OWP-33). */
function restrictions(policy: ToolPolicy): PolicyDefinition {
  const { safetyTier, approval, scopes, timeoutMs, costHint, latencyHint, project, modelFormat, identity } =
    policy
  return {
    ...(safetyTier === 'exec' ? { safetyTier, approval: 'always' } : { approval }),
    scopes,
    timeoutMs,
    ...defined({ costHint, latencyHint, project, modelFormat, identity }),
  }
}

const MANIFEST = { name: z.string().optional(), version: z.string().optional() }
const RUNTIME = z.looseObject({ entry: z.string().optional(), requires: z.array(z.string()).default([]) })

/** The members of openwop's `pack.json` that are used here. */
const PACK_FILE = z.looseObject({ ...MANIFEST, runtime: RUNTIME.optional() })

const PACKAGE_FILE = z.looseObject({ ...MANIFEST, main: z.string().optional(), collet: RUNTIME.optional() })

/** A pack on this machine, and its declared needs. */
export interface LocatedPack {
  readonly root: string
  /** The files of the pack that it may read: its folder, or a single file. */
  readonly own: string
  readonly entry: string
  readonly requires: readonly string[]
  /** Its identity for pins: name, version and the digest of its entry file (rules 21 and 32). */
  readonly identity: JsonObject
}

/** Finds the pack's entry and its declared needs, without running any of it. */
export async function locatePack(options: PackOptions, folder: string): Promise<LocatedPack> {
  const start =
    options.path === undefined ? findPackage(options.package ?? '', folder) : resolve(folder, options.path)
  const folderOrFile = await realpath(start).catch(() => undefined)
  if (folderOrFile === undefined) throw missing(options)
  if (!(await stat(folderOrFile)).isDirectory()) {
    return { ...(await identify(dirname(folderOrFile), folderOrFile, {}, {})), own: folderOrFile }
  }
  const pack = await readManifest(join(folderOrFile, 'pack.json'), PACK_FILE)
  const packageManifest = await readManifest(join(folderOrFile, 'package.json'), PACKAGE_FILE)
  const declared = pack?.runtime?.entry ?? packageManifest?.collet?.entry
  const entry = await findEntry(folderOrFile, declared, packageManifest)
  if (entry === undefined) throw missing(options)
  return await identify(folderOrFile, entry, pack ?? {}, packageManifest ?? {})
}

/** The folder of an installed package. It is found even if the `exports` of the package hide `package.json`. */
function findPackage(name: string, folder: string): string {
  for (const modules of createRequire(join(folder, 'collet.config.js')).resolve.paths(name) ?? []) {
    try {
      return dirname(createRequire(join(modules, 'x.js')).resolve(join(modules, name, 'package.json')))
    } catch {
      // The package is not in this folder.
    }
  }
  return join(folder, 'node_modules', name)
}

async function findEntry(
  folderOrFile: string,
  declared: string | undefined,
  packageManifest: z.output<typeof PACKAGE_FILE> | undefined,
): Promise<string | undefined> {
  const own = packageManifest?.name === undefined ? undefined : resolveOwn(folderOrFile, packageManifest.name)
  for (const name of [declared, own, packageManifest?.main, 'index.js', 'index.mjs', 'index.ts']) {
    if (name === undefined) continue
    const file = await realpath(resolve(folderOrFile, name)).catch(() => undefined)
    if (file !== undefined && (await stat(file)).isFile()) return file
  }
  return undefined
}

/** The file that `import` of the package's name would load. */
function resolveOwn(folderOrFile: string, name: string): string | undefined {
  try {
    return createRequire(join(folderOrFile, 'package.json')).resolve(name)
  } catch {
    return undefined
  }
}

async function identify(
  root: string,
  entry: string,
  pack: Partial<z.output<typeof PACK_FILE>>,
  packageManifest: Partial<z.output<typeof PACKAGE_FILE>>,
): Promise<LocatedPack> {
  const digest = hash('sha256', await readFile(entry), 'base64url')
  const name = pack.name ?? packageManifest.name
  const version = pack.version ?? packageManifest.version
  return {
    root,
    own: root,
    entry,
    requires: [...new Set([...(pack.runtime?.requires ?? []), ...(packageManifest.collet?.requires ?? [])])],
    identity: defined({ type: 'pack', name, version, entry: digest }),
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
      : `The package ${name} is not installed, or has nothing to import. Install it next to the configuration.`,
  )
}

/** The tools of a pack by name. */
export interface LoadedPack {
  readonly tools: ReadonlyMap<string, Tool>
  /** The reasons why tools were left out. */
  readonly warnings: readonly string[]
}

/** Imports the entry of a pack and collects the tools it exports; an invalid tool does not affect the others. */
export async function loadPack(entry: string): Promise<LoadedPack> {
  const exported: Readonly<Record<string, unknown>> = await import(pathToFileURL(entry).href).catch(
    (error: unknown) => {
      const why = error instanceof Error ? error.message : String(error)
      throw fault('upstream_failed', `The pack cannot be loaded: ${why}`, { cause: error })
    },
  )
  const warnings: string[] = []
  const found = Object.keys(exported)
    .sort()
    .flatMap((name) => exported[name])
    .filter(isDefinedTool)
  const tools = [...new Set(found)].flatMap((definition) => {
    const problem = unsupportedReason(definition)
    if (problem !== undefined) {
      warnings.push(`${definition.id} is left out: ${problem}`)
      return []
    }
    const { tool, findings } = prepareTool(definition, { describeParameters: false })
    warnings.push(
      ...findings.map(({ where, problem: what }) => `${definition.id} is left out: ${where}: ${what}`),
    )
    return tool ?? []
  })
  if (found.length === 0) warnings.push('It exports no tool: export the value that tool({ … }) returns.')
  return { tools: nameTools(tools, warnings), warnings }
}

function unsupportedReason(definition: object): string | undefined {
  if (isWorkflow(definition)) return 'workflows must be written in the configuration, under `tools`.'
  return 'session' in definition
    ? 'tools that keep state must be written in the configuration, under `tools`.'
    : undefined
}

/** Names each tool `Name` if all tools are in one toolkit, else `Toolkit.Name`. Of several versions, only the newest is kept. */
function nameTools(tools: readonly Tool[], warnings: string[]): ReadonlyMap<string, Tool> {
  const isOne = new Set(tools.map(({ parts }) => parts.toolkit)).size === 1
  const byName = new Map<string, Tool>()
  // The oldest version comes first, so that newer versions replace it.
  for (const tool of tools.toSorted((a, b) => compareVersions(a.parts.version, b.parts.version))) {
    const name = isOne ? tool.parts.name : tool.parts.base
    const older = byName.get(name)
    if (older !== undefined) warnings.push(`${older.id} is left out: ${tool.id} is newer.`)
    byName.set(name, tool)
  }
  return byName
}
