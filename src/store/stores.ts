import { existsSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, join } from 'node:path'
import { StoreError } from '#kernel/base/errors'
import type { Migration, SchemaMode } from '#kernel/store/schema'
import type { StoreOptions } from '#kernel/store/store'
import type { Store } from './collet-store.ts'
import type { CopyProgress, CopyResult, StoreTables } from './copy.ts'
import {
  connectionAddress,
  directAddress,
  leaseOfAddress,
  problemOfAddress,
  shownAddress,
} from './postgres/address.ts'
import type { Finding } from './postgres/examine.ts'

/**
 * Addresses of stores (`sqlite:`, `postgres:`, `memory:`) and what can be done with each kind: open, migrate, copy, back up, examine.
 * The server and the commands open stores here. The code for a kind of store is loaded only when it is used.
 */

interface OpenStoreOptions extends StoreKey, Pick<StoreOptions, 'onCommit' | 'onForeign'> {
  /**
   * Operator commands never create a key file, because a missing key file means a wrong folder. Nor do they migrate tables, because
   * an older server may be using them.
   */
  readonly mode: 'server' | 'operator'
  /** Whether a server migrates the tables. Default true. */
  readonly migrates?: boolean | undefined
  /** The server's port, by which other commands name the process; 0: unknown. */
  readonly port?: number | undefined
}

interface StoreKey {
  readonly dataFolder: string
  /** `COLLET_KEY`; without it the key file is used. */
  readonly masterKey: Uint8Array | undefined
  /** `COLLET_KEY_OLD`: the previous key, while it is being changed. */
  readonly oldMasterKey?: Uint8Array | undefined
}

/** A kind of store. `rest` is the part of its address after the scheme. */
interface StoreType {
  readonly schemes: readonly string[]
  /** The form of its address. */
  readonly form: string
  /** `file` and `server` outlive the process, and other processes can open them. */
  readonly kind: 'file' | 'server' | 'memory'
  problemOf(rest: string): string | undefined
  /** The address as shown to the operator, never with a password. */
  describe(rest: string): string
  open(rest: string, options: OpenStoreOptions): Promise<Store>
  /** Migrates its tables, or only reports the versions. */
  migrate(rest: string, key: StoreKey, mode: SchemaMode): Promise<Migration>
  /** Opens its raw tables, and creates them if there are none. */
  tables(rest: string): Promise<StoreTables>
  /** Checks its database server; absent for kinds without a server. */
  examine?(rest: string, nowMs: () => number): Promise<readonly Finding[]>
  /** The first damage found in its file, as reported by the database. */
  findDamage(rest: string): Promise<string | undefined>
  /** Copies the store, even while a server uses it, to a file that must not exist. */
  backUp(rest: string, target: string): Promise<void>
}

const KEY_FILE = 'key'
const KEY_NEEDED =
  'a store on PostgreSQL needs COLLET_KEY, the same for every replica, which encrypts its contents. "collet keys generate" creates one; keep it as safe as the database'
export const DEFAULT_STORE = 'sqlite:.collet/collet.db'

const STORE_TYPES: readonly StoreType[] = [
  {
    schemes: ['sqlite'],
    form: 'sqlite:PATH',
    kind: 'file',
    problemOf(path) {
      if (path === '') return `"sqlite:" needs a path, for example "${DEFAULT_STORE}".`
      if (path === ':memory:') return 'a store without a file is written "memory:".'
      if (path.startsWith('//')) {
        return `write the path directly after "sqlite:", without "//", for example "${DEFAULT_STORE}".`
      }
      return path.includes('\0') ? 'a path cannot contain NUL.' : undefined
    },
    describe: (path) => path,
    async open(path, options) {
      const { openSqliteStore } = await import('./sqlite/sqlite-store.ts')
      const { mode, port, onCommit, onForeign } = options
      const keys = await fileKeys(options, mode === 'server' ? path : undefined)
      const schema = schemaMode(options)
      return openSqliteStore({ path, ...keys, schema, place: placeOf(port), onCommit, onForeign })
    },
    async migrate(path, key, mode) {
      const { KeyRing } = await import('#kernel/store/key-ring')
      const { migrateDatabase } = await import('#kernel/store/sqlite/engine')
      const { DEFINITION: definition } = await import('./collet-store.ts')
      const { masterKey, oldMasterKey } = await fileKeys(key)
      return migrateDatabase(path, new KeyRing({ current: masterKey, old: oldMasterKey }), {
        definition,
        mode,
      })
    },
    tables: async (path) => (await import('./sqlite/tables.ts')).openSqliteTables(path),
    findDamage: async (path) => (await import('#kernel/store/sqlite/files')).findDamage(path),
    backUp: async (path, target) => (await import('#kernel/store/sqlite/files')).backUpDatabase(path, target),
  },
  {
    schemes: ['postgres', 'postgresql'],
    form: 'postgres://USER@HOST/DATABASE',
    kind: 'server',
    problemOf: (rest) => problemOfAddress(`postgres:${rest}`),
    describe: (rest) => shownAddress(`postgres:${rest}`),
    async open(rest, options) {
      const { openPostgresStore } = await import('./postgres/open.ts')
      const { masterKey, oldMasterKey, port, onCommit, onForeign } = options
      return await openPostgresStore({
        url: connectionAddress(`postgres:${rest}`),
        direct: directAddress(`postgres:${rest}`),
        leaseMs: leaseOfAddress(`postgres:${rest}`),
        masterKey: requireKey(masterKey),
        oldMasterKey,
        schema: schemaMode(options),
        place: placeOf(port),
        onCommit,
        onForeign,
      })
    },
    async migrate(rest, { masterKey, oldMasterKey }, mode) {
      const { KeyRing } = await import('#kernel/store/key-ring')
      const { prepareDatabase } = await import('./postgres/open.ts')
      const keys = new KeyRing({ current: requireKey(masterKey), old: oldMasterKey })
      return await prepareDatabase(ownAddress(rest), keys, { mode })
    },
    examine: async (rest, nowMs) =>
      await (await import('./postgres/examine.ts')).examineDatabase(ownAddress(rest), nowMs),
    tables: async (rest) => await (await import('./postgres/tables.ts')).openPostgresTables(ownAddress(rest)),
    findDamage: () => Promise.resolve(undefined),
    backUp: (rest, target) =>
      Promise.reject(
        new StoreError(
          'not_written',
          `a PostgreSQL database is backed up with its own tools, for example: pg_dump --format=custom --file=${target} "${shownAddress(`postgres:${rest}`)}"`,
        ),
      ),
  },
  {
    schemes: ['memory'],
    form: 'memory:',
    kind: 'memory',
    problemOf: (rest) => (rest === '' ? undefined : '"memory:" takes nothing after the colon.'),
    describe: () => 'in memory: gone when the server stops',
    async open(_rest, { onCommit, onForeign }) {
      const { openMemoryStore } = await import('./sqlite/sqlite-store.ts')
      return openMemoryStore({ onCommit, onForeign })
    },
    migrate: () => Promise.reject(new Error('A store in memory always has the current tables.')),
    tables: () => Promise.reject(new Error('A store in memory cannot be copied.')),
    findDamage: () => Promise.resolve(undefined),
    backUp: () => Promise.reject(new Error('A store in memory has no file to copy.')),
  },
]

/** Forms of addresses, for help texts. */
export const STORE_FORMS = STORE_TYPES.map(({ form }) => form).join(' or ')
/** Forms of stores that outlive the process. */
export const KEPT_STORE_FORMS = STORE_TYPES.flatMap(({ form, kind }) =>
  kind === 'memory' ? [] : [form],
).join(' or ')
const FORMS = `Write ${STORE_TYPES.map(({ form }) => `"${form}"`).join(' or ')}.`

/** A parsed address; its path may be relative. */
type StoreUrl =
  | { readonly kind: 'invalid'; readonly problem: string }
  | { readonly kind: 'file'; readonly scheme: string; readonly path: string }
  | { readonly kind: 'server' | 'memory' }

/** Problems do not repeat the address, which may contain a password. */
export function parseStoreUrl(text: string): StoreUrl {
  const found = findStoreType(text)
  if (found === undefined) return { kind: 'invalid', problem: `expected a store address. ${FORMS}` }
  const { type, scheme, rest } = found
  const problem = type.problemOf(rest)
  if (problem !== undefined) return { kind: 'invalid', problem }
  return type.kind === 'file' ? { kind: type.kind, scheme, path: rest } : { kind: type.kind }
}

export function describeStore(url: string): string {
  const { type, rest } = storeTypeOf(url)
  return type.describe(rest)
}

/** The address for display, without a password. */
export function shownStoreUrl(url: string): string {
  return storeTypeOf(url).type.kind === 'server' ? describeStore(url) : url
}

export async function openStore(url: string, options: OpenStoreOptions): Promise<Store> {
  const { type, rest } = storeTypeOf(url)
  const store = await type.open(rest, options)
  keepOutOfGit(options.dataFolder)
  return store
}

const DATA_FOLDER = '.collet'

/** Keeps the key, the start token and the calls in the data folder out of `git add .`. A folder with another name may contain other files too. */
export function keepOutOfGit(dataFolder: string): void {
  if (basename(dataFolder) !== DATA_FOLDER || !existsSync(dataFolder)) return
  try {
    writeFileSync(join(dataFolder, '.gitignore'), '*\n', { flag: 'wx' })
  } catch {
    // It exists already, or the folder is not writable, which opening the store reports.
  }
}

export async function migrateStore(url: string, key: StoreKey, mode: SchemaMode): Promise<Migration> {
  const { type, rest } = storeTypeOf(url)
  return await type.migrate(rest, key, mode)
}

/** Copies a store into an empty database, or continues an interrupted copy. The copy uses the source's key. */
export async function copyStore(
  from: string,
  to: string,
  { onProgress, ...key }: StoreKey & { readonly onProgress: (progress: CopyProgress) => void },
): Promise<CopyResult> {
  const [source, target] = [storeTypeOf(from), storeTypeOf(to)]
  const { masterKey, oldMasterKey } =
    source.type.kind === 'file'
      ? await fileKeys(key)
      : { masterKey: requireKey(key.masterKey), oldMasterKey: key.oldMasterKey }
  const { KeyRing } = await import('#kernel/store/key-ring')
  const { copyTables } = await import('./copy.ts')
  await source.type.migrate(source.rest, { ...key, masterKey, oldMasterKey }, 'require')
  await using opened = new AsyncDisposableStack()
  const open = async ({ type, rest }: typeof source) =>
    opened.adopt(await type.tables(rest), (tables) => tables.close())
  const keys = new KeyRing({ current: masterKey, old: oldMasterKey })
  return await copyTables(await open(source), await open(target), { keys, onProgress })
}

/** `COLLET_KEY`, or else the key file. A missing key file is created for the database at `newFor`. */
async function fileKeys({ masterKey, oldMasterKey, dataFolder }: StoreKey, newFor?: string) {
  if (masterKey !== undefined) return { masterKey, oldMasterKey }
  const { readKeyFile, readOrCreateKeyFile } = await import('#kernel/store/key-file')
  const file = join(dataFolder, KEY_FILE)
  return newFor === undefined ? readKeyFile(file) : readOrCreateKeyFile(file, newFor)
}

/** Checks the database server of a store; changes nothing. */
export async function examineStore(url: string, nowMs: () => number): Promise<readonly Finding[]> {
  const { type, rest } = storeTypeOf(url)
  return (await type.examine?.(rest, nowMs)) ?? []
}

export async function findStoreDamage(url: string): Promise<string | undefined> {
  const { type, rest } = storeTypeOf(url)
  return await type.findDamage(rest)
}

export async function backUpStore(url: string, target: string): Promise<void> {
  const { type, rest } = storeTypeOf(url)
  await type.backUp(rest, target)
}

function placeOf(port = 0): string {
  return `${hostname()}${port === 0 ? '' : `:${port}`} pid ${process.pid}`
}

function schemaMode({ mode, migrates = true }: Pick<OpenStoreOptions, 'mode' | 'migrates'>): SchemaMode {
  return mode === 'server' && migrates ? 'migrate' : 'require'
}

/** The address of the database itself, not of a pooler. */
function ownAddress(rest: string): string {
  return directAddress(`postgres:${rest}`) ?? connectionAddress(`postgres:${rest}`)
}

function requireKey(masterKey: Uint8Array | undefined): Uint8Array {
  if (masterKey === undefined) throw new StoreError('unreadable', KEY_NEEDED)
  return masterKey
}

function findStoreType(url: string) {
  const [, scheme = '', rest = ''] = /^([A-Za-z][A-Za-z0-9+.-]*):(.*)$/s.exec(url) ?? []
  const type = STORE_TYPES.find(({ schemes }) => schemes.includes(scheme))
  return type === undefined ? undefined : { type, scheme, rest }
}

function storeTypeOf(url: string) {
  const found = findStoreType(url)
  if (found !== undefined) return found
  throw new Error(`The store is not known. ${FORMS.replaceAll('"', "'")}`)
}
