import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { decodeMasterKeys } from '#config/environment'
import {
  ConfigError,
  type ConfigProblem,
  findConfig,
  hasConfig,
  type ImportModule,
  type LoadedConfig,
  loadConfig,
} from '#config/load'
import { loadTools } from '#config/load-tools'
import { locateStore, type StoreLocation } from '#config/to-settings'
import { cleanText } from '#kernel/base/json'
import type { Tool } from '#kernel/tool/tool'
import type { Store } from '#store/ports/store'
import { KEPT_STORE_FORMS, shownStoreUrl } from '#store/stores'
import type { Arguments, CommandContext, OptionSpecs } from './command.ts'
import type { StoreAccess } from './io.ts'

export const CONFIG_OPTION = {
  value: 'F',
  help: 'Config file. Default: COLLET_CONFIG, or collet.config.{ts,js,mjs,json} here.',
} as const

/** The options that choose a store; commands with these need no running server. */
export const STORE_OPTIONS = {
  store: { value: 'URL', help: `${KEPT_STORE_FORMS}. Default: the store of the config.` },
  config: CONFIG_OPTION,
} as const satisfies OptionSpecs

export async function chosenStore(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<StoreLocation> {
  const named = args.text('store')
  if (named !== undefined) return locateStore(named, context.workingFolder, '--store')
  const { config, folder } = await loadProjectConfig(args.text('config'), context)
  return locateStore(config.store, folder, 'store')
}

/** Where the store is and how to read it; refuses what a command of its own process cannot see. */
export async function storeAccess(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<StoreAccess> {
  const { store, kind, file, dataFolder } = await chosenStore(args, context)
  if (kind === 'memory') {
    throw problem(
      'The store is in memory, where only the running server can see it. Ask the server with --url.',
    )
  }
  // Opening would make an empty database, and an empty answer would look like a true one.
  if (file !== undefined && !existsSync(file))
    throw problem(`There is no database at ${file}. Name the right one with --store or --config.`)
  return { url: store, dataFolder, ...decodeMasterKeys(context.environment) }
}

/**
 * For a command that may be the first one in a folder: makes the database that is not there yet, and a config where there
 * is neither. Gives what was made, relative to where the user is.
 */
export async function ensureStore(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<readonly string[]> {
  const { workingFolder, environment, services } = context
  const made: string[] = []
  if (lacksConfig(args, context)) {
    await writeFile(join(workingFolder, NEW_CONFIG), EMPTY_CONFIG, { flag: 'wx' })
    made.push(NEW_CONFIG)
  }
  const { store, kind, file, dataFolder } = await chosenStore(args, context)
  const access = { url: store, dataFolder, ...decodeMasterKeys(environment) }
  if (kind === 'server') {
    const { from } = await services.migrate(access, 'look')
    if (from !== 0) return made
    await services.migrate(access, 'migrate')
    return [...made, `the tables in ${shownStoreUrl(store)}`]
  }
  if (file === undefined || existsSync(file)) return made
  await services.createStore(access)
  return [...made, shorter(relative(workingFolder, file), file)]
}

/** Whether there is a store to look into; `ensureStore` would make one. */
export async function hasStore(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<boolean> {
  if (lacksConfig(args, context)) return false
  const { file } = await chosenStore(args, context)
  return file === undefined || existsSync(file)
}

/** Nobody names a store or a config, and there is none where the user is. */
export function lacksConfig(
  args: Arguments<'store' | 'config'>,
  { workingFolder, environment }: CommandContext,
): boolean {
  const named = args.text('store') ?? args.text('config') ?? environment.configFile
  return named === undefined && !hasConfig(workingFolder)
}

/** JSON needs no package beside it. */
const NEW_CONFIG = 'collet.config.json'
/** Editors complete and check what is written into it, where the package is installed beside it. */
const EMPTY_CONFIG = `${JSON.stringify({ $schema: './node_modules/collet/dist/config.schema.json' }, undefined, 2)}\n`

/** Opens the chosen store for one piece of work, and closes it whatever happens. */
export async function withStore<T>(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const store = await context.services.openStore(await storeAccess(args, context))
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

/** Whether a store was named without a config, so that nothing is known of tools, providers and sources. */
export function isStoreAlone(args: Arguments<'store' | 'config'>): boolean {
  return args.text('store') !== undefined && args.text('config') === undefined
}

function problem(message: string): ConfigError {
  return new ConfigError([{ severity: 'error', message }])
}

interface Project {
  readonly loaded: LoadedConfig
  readonly tools: readonly Tool[]
}

/** The config that `--config`, `COLLET_CONFIG` or the working folder names. */
export async function loadProjectConfig(
  named: string | undefined,
  { workingFolder, environment }: CommandContext,
  load?: ImportModule,
): Promise<LoadedConfig> {
  const file = findConfig(workingFolder, named ?? environment.configFile)
  return await loadConfig(file, { load, variables: environment.variables() })
}

/** Config and tools. Warnings are shown; one error or more is thrown, together with the warnings. */
export async function loadProject(
  named: string | undefined,
  context: CommandContext,
  load?: ImportModule,
): Promise<Project> {
  const loaded = await loadProjectConfig(named, context, load)
  const { tools, problems } = await context.output.during('Loading tools', loadTools(loaded))
  if (problems.some(({ severity }) => severity === 'error')) throw new ConfigError(problems)
  for (const problem of problems) context.output.warn(problemText(problem, context.workingFolder))
  return { loaded, tools }
}

/** A problem in one line, with its file relative to where the user is. */
export function problemText({ file, where, message }: ConfigProblem, workingFolder: string): string {
  const place = file === undefined ? undefined : shorter(relative(workingFolder, file), file)
  return [place, where, message]
    .filter((part) => part !== undefined && part !== '')
    .map((part) => cleanText(part ?? ''))
    .join(': ')
}

function shorter(left: string, right: string): string {
  return left.length < right.length ? left : right
}
