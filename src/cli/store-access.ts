import { existsSync } from 'node:fs'
import { decodeMasterKey } from '#config/environment'
import { ConfigError } from '#config/load'
import { locateStore, type StoreLocation } from '#config/to-settings'
import type { Store } from '#core/ports/store'
import { KEPT_STORE_FORMS } from '#store/stores'
import type { Arguments, CommandContext, OptionSpecs } from './command.ts'
import type { StoreAccess } from './io.ts'
import { loadProjectConfig } from './project.ts'

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
  const { store, file, dataFolder } = await chosenStore(args, context)
  if (file === undefined) {
    throw problem(
      'The store is in memory, where only the running server can see it. Ask the server with --url.',
    )
  }
  // Opening would make an empty database, and an empty answer would look like a true one.
  if (!existsSync(file))
    throw problem(`There is no database at ${file}. Name the right one with --store or --config.`)
  return { url: store, dataFolder, masterKey: decodeMasterKey(context.environment.masterKey) }
}

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
