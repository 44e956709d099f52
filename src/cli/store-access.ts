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
import type { Settings } from '#config/settings'
import { locateStore, type SettingsFlags, type StoreLocation, toSettings } from '#config/to-settings'
import { cleanText } from '#kernel/base/json'
import type { Store } from '#store/collet-store'
import { KEPT_STORE_FORMS, shownStoreUrl } from '#store/stores'
import type { Arguments, CommandContext, OptionSpecs } from './command.ts'
import type { StoreAccess } from './io.ts'

/**
 * How commands find and open the store and the config: `--store`, `--config`, or the working folder. Commands that
 * work without a server use it. Invariant: a command never creates a database by accident (only `ensureStore` does),
 * and every store it opens is closed.
 */

export const CONFIG_OPTION = {
  value: 'F',
  help: 'Config file. Default: COLLET_CONFIG, or collet.config.{ts,js,mjs,json} here.',
} as const

/** Options that choose a store. */
export const STORE_OPTIONS = {
  store: { value: 'URL', help: `${KEPT_STORE_FORMS}. Default: the store in the config.` },
  config: CONFIG_OPTION,
} as const satisfies OptionSpecs

export type StoreArguments = Arguments<keyof typeof STORE_OPTIONS>

export async function chosenStore(args: StoreArguments, context: CommandContext): Promise<StoreLocation> {
  const named = args.text('store')
  if (named !== undefined) return locateStore(named, context.workingFolder, '--store')
  const { config, folder } = await loadProjectConfig(args.text('config'), context)
  return locateStore(config.store, folder, 'store')
}

/** The location of the store and how to open it; refuses a store in memory, which only its server can see. */
export async function storeAccess(args: StoreArguments, context: CommandContext): Promise<StoreAccess> {
  const { store, kind, file, dataFolder } = await chosenStore(args, context)
  if (kind === 'memory') {
    throw problem(
      'The store is in memory, where only the running server can see it. Ask the server with --url.',
    )
  }
  // Opening would create an empty database, whose empty answers would look correct.
  if (file !== undefined && !existsSync(file))
    throw problem(`There is no database at ${file}. Name the right one with --store or --config.`)
  return { url: store, dataFolder, ...decodeMasterKeys(context.environment) }
}

/** Creates the database, and a config if there is none, for a command that may be the first in a folder. */
export async function ensureStore(args: StoreArguments, context: CommandContext): Promise<void> {
  const made = await makeStore(args, context)
  if (made.length > 0) context.output.note(`Created ${made.join(' and ')}.`)
}

/** Returns what was created; files are relative to the working folder. */
async function makeStore(args: StoreArguments, context: CommandContext): Promise<readonly string[]> {
  const { workingFolder, environment, services } = context
  const made: string[] = []
  if (lacksConfig(args, context)) {
    await writeFile(join(workingFolder, NEW_CONFIG), EMPTY_CONFIG, { flag: 'wx' })
    made.push(NEW_CONFIG)
  }
  const { store, kind, file, dataFolder } = await chosenStore(args, context)
  const access = { url: store, dataFolder, ...decodeMasterKeys(environment) }
  if (kind === 'server') {
    const { from } = await services.migrate(access, 'inspect')
    if (from !== 0) return made
    await services.migrate(access, 'migrate')
    return [...made, `the tables in ${shownStoreUrl(store)}`]
  }
  if (file === undefined || existsSync(file)) return made
  await services.createStore(access)
  return [...made, shorter(relative(workingFolder, file), file)]
}

/** Whether the store exists; a database server is not asked. */
export async function hasStore(args: StoreArguments, context: CommandContext): Promise<boolean> {
  if (lacksConfig(args, context)) return false
  const { file } = await chosenStore(args, context)
  return file === undefined || existsSync(file)
}

/** Whether no store and no config is named, and the working folder has no config. */
export function lacksConfig(args: StoreArguments, { workingFolder, environment }: CommandContext): boolean {
  const named = args.text('store') ?? args.text('config') ?? environment.configFile
  return named === undefined && !hasConfig(workingFolder)
}

/** A JSON config needs no package beside it. */
const NEW_CONFIG = 'collet.config.json'
/** Lets editors complete and check the file if the package is installed beside it. */
const EMPTY_CONFIG = `${JSON.stringify({ $schema: './node_modules/collet/dist/config.schema.json' }, undefined, 2)}\n`

/** Opens the chosen store for one piece of work, and always closes it. */
export async function withStore<T>(
  args: StoreArguments,
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

/** The config beside the store; `undefined` if there is none here, or if `--store` is given without `--config`. */
export async function configHere(
  args: StoreArguments,
  context: CommandContext,
): Promise<LoadedConfig | undefined> {
  if (isStoreAlone(args) || lacksConfig(args, context)) return undefined
  return await loadProjectConfig(args.text('config'), context)
}

/** Whether `--store` was given without `--config`, so that tools, providers and sources are unknown. */
export function isStoreAlone(args: StoreArguments): boolean {
  return args.text('store') !== undefined && args.text('config') === undefined
}

function problem(message: string): ConfigError {
  return new ConfigError([{ severity: 'error', message }])
}

/** The config named by `--config` or `COLLET_CONFIG`, else the one in the working folder. */
export async function loadProjectConfig(
  named: string | undefined,
  { workingFolder, environment }: CommandContext,
  load?: ImportModule,
): Promise<LoadedConfig> {
  const file = findConfig(workingFolder, named ?? environment.configFile)
  return await loadConfig(file, { load, variables: environment.variables() })
}

/** Loads config and tools. Warnings are printed; errors are thrown together with the warnings. */
export async function loadProject(named: string | undefined, context: CommandContext, load?: ImportModule) {
  const loaded = await loadProjectConfig(named, context, load)
  const { tools, problems } = await context.output.during('Loading tools', loadTools(loaded))
  if (problems.some(({ severity }) => severity === 'error')) throw new ConfigError(problems)
  for (const problem of problems) context.output.warn(problemText(problem, context.workingFolder))
  return { loaded, tools }
}

/** Loads the settings of a server from config and tools; flags take precedence over the config. */
export async function loadSettings(
  named: string | undefined,
  flags: SettingsFlags,
  context: CommandContext,
  load?: ImportModule,
): Promise<Settings> {
  const { environment, workingFolder } = context
  return toSettings({ ...(await loadProject(named, context, load)), flags, environment, workingFolder })
}

/** Describes a problem in one line, with its file relative to the working folder. */
export function problemText({ file, where, message }: ConfigProblem, workingFolder: string): string {
  const place = file === undefined ? undefined : shorter(relative(workingFolder, file), file)
  return cleanText([place, where, message].filter(Boolean).join(': '))
}

function shorter(left: string, right: string): string {
  return left.length < right.length ? left : right
}
