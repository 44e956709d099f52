import { hash } from 'node:crypto'
import { existsSync, globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { relative, resolve } from 'node:path'
import type { Finding } from '#kernel/base/errors'
import { type DefinedTool, isDefinedTool } from '#kernel/tool/define'
import { prepareTools } from '#kernel/tool/prepare-tools'
import type { Tool } from '#kernel/tool/tool'
import { ConfigError, type ConfigProblem, type ImportModule, importFile, type LoadedConfig } from './load.ts'
import { isImported } from './to-settings.ts'

/*
 * Loads the tools that a config names, and prepares them.
 * Used by every command that needs tools.
 * Invariant: all problems of all files are reported together.
 */

/**
 * Loads and prepares the tools of a config; continues after a bad tool, so that all problems are reported. If one of them is an error,
 * the server must not start. Tools are in the order of the config; the files of a glob and the exports of a file are ordered by name,
 * because a module does not keep the order of its exports.
 */
export async function loadTools(loaded: LoadedConfig, load?: ImportModule) {
  const problems: ConfigProblem[] = []
  const found = new Map<DefinedTool, { readonly definition: DefinedTool; readonly file: string }>()
  for (const [index, entry] of loaded.config.tools.entries()) {
    const where = `tools[${index}]`
    if (typeof entry === 'string') await collectFiles(entry, where)
    else if (isDefinedTool(entry)) add(entry, loaded.file)
    else problems.push({ severity: 'error', file: loaded.file, where, message: notATool(entry) })
  }
  // For tools in the config itself only their functions are hashed, so that changes elsewhere in the file change no tool.
  const modules = [...found.values()].map(({ file }) => file).filter((file) => file !== loaded.file)
  const hashes = await hashFiles(modules)
  const definitions = [...found.values()].map((each) => {
    const moduleHash = hashes.get(each.file)
    return moduleHash === undefined ? each : { ...each, moduleHash }
  })
  const prepared = prepareTools(definitions, {
    acknowledgeLaxerVersions: loaded.config.acknowledgeLaxerVersions,
    mayComeLater: (name) => isImported(name, Object.entries(loaded.config.sources)),
    defaultTimeoutMs: loaded.config.calls.defaultTimeoutMs,
    vendor: loaded.config.openwop.vendor,
    describeParameters: loaded.config.authoring.describeParameters,
  })
  if (!prepared.ok) problems.push(...prepared.findings.map(toProblem))
  const tools: readonly Tool[] = prepared.ok ? prepared.tools : []
  return { tools, problems }

  function add(definition: DefinedTool, file: string): void {
    if (!found.has(definition)) found.set(definition, { definition, file })
  }

  async function collectFiles(entry: string, where: string): Promise<void> {
    const files = findToolFiles(entry, loaded.folder)
    if (files.length === 0) {
      const message = `"${entry}" matches no file in ${loaded.folder}. Paths are relative to the config file.`
      problems.push({ severity: 'error', file: loaded.file, where, message })
    }
    for (const file of files) {
      try {
        collectExports(await importFile(file, load), file)
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error
        problems.push(...error.problems)
      }
    }
  }

  function collectExports(exported: Readonly<Record<string, unknown>>, file: string): void {
    let hasTool = false
    for (const name of Object.keys(exported).sort()) {
      const value = exported[name]
      for (const item of Array.isArray(value) ? value : [value]) {
        if (isDefinedTool(item)) {
          hasTool = true
          add(item, file)
        } else {
          const message = unmarkedProblem(item)
          if (message !== undefined) problems.push({ severity: 'error', file, where: name, message })
        }
      }
    }
    if (!hasTool && !problems.some((problem) => problem.file === file)) {
      problems.push({ severity: 'warning', file, message: EXPORTS_NOTHING })
    }
  }
}

/** Hashes by file. A module's own imports are not covered. */
async function hashFiles(files: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const hashes = new Map<string, string>()
  for (const file of new Set(files)) {
    const text = await readFile(file).catch(() => undefined)
    if (text !== undefined) hashes.set(file, hash('sha256', text, 'base64url'))
  }
  return hashes
}

const EXPORTS_NOTHING =
  'exports no tool. Export the result of tool({ … }), workflow({ … }), prompt({ … }) or resource({ … }).'
const NOT_MADE_BY_TOOL = 'looks like a tool, but was not made by tool(). Write tool({ … }) around it.'
const NOT_MADE_BY_RESOURCE =
  'looks like a resource, but was not made by resource(). Write resource({ … }) around it.'

function notATool(entry: unknown): string {
  const message = unmarkedProblem(entry)
  if (message !== undefined) return message
  if (Array.isArray(entry)) return 'is a list. Spread it: tools: [...list].'
  return 'expected a tool made by tool(), or a path or glob of files that export tools.'
}

/** The problem of a definition that was not made by `tool()` or `resource()`; `undefined` for any other value. */
function unmarkedProblem(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || !('id' in value)) return undefined
  if ('run' in value) return NOT_MADE_BY_TOOL
  return 'read' in value && ('uri' in value || 'uriTemplate' in value) ? NOT_MADE_BY_RESOURCE : undefined
}

function toProblem({ toolId, file, where, problem, fix }: Finding): ConfigProblem {
  return {
    severity: 'error',
    ...(file === undefined ? {} : { file }),
    where: `${toolId} ${where}`,
    message: `${problem} ${fix}`,
  }
}

const GLOB_CHARACTERS = /[*?[\]{}!]/
/** Files that a glob may match but that contain no tools. */
const NOT_TOOLS = /\.(d\.[cm]?ts|(test|spec)\.[cm]?[jt]s|map)$/

/** The files that a `tools` entry names, absolute and sorted; empty if there are none. */
function findToolFiles(entry: string, folder: string): readonly string[] {
  const whole = resolve(folder, entry)
  if (!GLOB_CHARACTERS.test(entry) || existsSync(whole)) return existsSync(whole) ? [whole] : []
  return globSync(entry, { cwd: folder })
    .filter((name) => !NOT_TOOLS.test(name))
    .map((name) => resolve(folder, name))
    .sort((left, right) => (relative(folder, left) < relative(folder, right) ? -1 : 1))
}
