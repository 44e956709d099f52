import { existsSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, join } from 'node:path'
import { StoreError } from '#kernel/base/errors'
import type { Migration, SchemaMode } from '#kernel/store/schema'
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

/** How a process opens a store. */
interface OpenStoreOptions extends StoreKey {
  /**
   * Operators' commands never make a key file: a missing one means they look in the wrong place. Nor do they change
   * tables: an older server may be using them.
   */
  readonly mode: 'server' | 'operator'
  /** Whether a server makes and changes tables. Default true. */
  readonly migrates?: boolean | undefined
  /** Port that a server listens on. Other commands name the process by it; 0 = not known. */
  readonly port?: number | undefined
  readonly onCommit?: ((changes: number, durationMs: number) => void) | undefined
  /** Called for rows that decide and were changed without the key. */
  readonly onForeign?: ((row: string, table: string) => void) | undefined
}

interface StoreKey {
  /** Folder of the key file. */
  readonly dataFolder: string
  /** `COLLET_KEY`; without it the key file is used. */
  readonly masterKey: Uint8Array | undefined
  /** `COLLET_KEY_OLD`: the key before, while it is being changed. */
  readonly oldMasterKey?: Uint8Array | undefined
}

/** A kind of store. `rest` is what its address has after the scheme; what it needs is loaded when it is used. */
interface StoreType {
  readonly schemes: readonly string[]
  /** How its address is written. */
  readonly form: string
  /** Where calls live: the first two outlive the process, and other processes can open them. */
  readonly kind: 'file' | 'server' | 'memory'
  /** What is wrong with an address. */
  problemOf(rest: string): string | undefined
  /** What the operator reads at the start; never a password. */
  describe(rest: string): string
  open(rest: string, options: OpenStoreOptions): Promise<Store>
  /** Brings its tables up to date, or says what would be done. */
  migrate(rest: string, key: StoreKey, mode: SchemaMode): Promise<Migration>
  /** Its tables as such; made when there are none. */
  tables(rest: string): Promise<StoreTables>
  /** What an operator should know of its server before others use it; absent where there is none. */
  examine?(rest: string, nowMs: () => number): Promise<readonly Finding[]>
  /** What is broken in its file, in the words of the database. */
  findDamage(rest: string): Promise<string | undefined>
  /** Copies it, also while a server uses it, to a file that must not be there yet. */
  backUp(rest: string, target: string): Promise<void>
}

const KEY_FILE = 'key'
const KEY_NEEDED =
  'a store on PostgreSQL needs COLLET_KEY, the same for every replica: what is stored is sealed with it. "collet keys generate" makes one; keep it as safe as the database'
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
    async open(path, { dataFolder, masterKey, oldMasterKey, mode, migrates, port, ...observers }) {
      const { readKeyFile, readOrCreateKeyFile } = await import('#kernel/store/key-file')
      const { openSqliteStore } = await import('./sqlite/sqlite-store.ts')
      const file = join(dataFolder, KEY_FILE)
      const read = () => (mode === 'server' ? readOrCreateKeyFile(file, path) : readKeyFile(file))
      const keys = masterKey === undefined ? read() : { masterKey, oldMasterKey }
      const schema = schemaMode({ mode, migrates })
      return openSqliteStore({ path, ...keys, schema, place: placeOf(port), ...observers })
    },
    async migrate(path, { dataFolder, masterKey, oldMasterKey }, mode) {
      const { readKeyFile } = await import('#kernel/store/key-file')
      const { KeyRing } = await import('#kernel/store/key-ring')
      const { migrateDatabase } = await import('#kernel/store/sqlite/engine')
      const keys =
        masterKey === undefined ? readKeyFile(join(dataFolder, KEY_FILE)) : { masterKey, oldMasterKey }
      const { DEFINITION: definition } = await import('./collet-store.ts')
      const ring = new KeyRing({ current: keys.masterKey, old: keys.oldMasterKey })
      return migrateDatabase(path, ring, { definition, mode })
    },
    async tables(path) {
      const { openSqliteTables } = await import('./sqlite/tables.ts')
      return openSqliteTables(path)
    },
    async findDamage(path) {
      const { findDamage } = await import('#kernel/store/sqlite/files')
      return findDamage(path)
    },
    async backUp(path, target) {
      const { backUpDatabase } = await import('#kernel/store/sqlite/files')
      backUpDatabase(path, target)
    },
  },
  {
    schemes: ['postgres', 'postgresql'],
    form: 'postgres://USER@HOST/DATABASE',
    kind: 'server',
    problemOf: (rest) => problemOfAddress(`postgres:${rest}`),
    describe: (rest) => shownAddress(`postgres:${rest}`),
    async open(rest, { masterKey, oldMasterKey, mode, migrates, port, onCommit, onForeign }) {
      const { openPostgresStore } = await import('./postgres/open.ts')
      return await openPostgresStore({
        url: connectionAddress(`postgres:${rest}`),
        direct: directAddress(`postgres:${rest}`),
        leaseMs: leaseOfAddress(`postgres:${rest}`),
        masterKey: needed(masterKey),
        oldMasterKey,
        schema: schemaMode({ mode, migrates }),
        place: placeOf(port),
        ...{ onCommit, onForeign },
      })
    },
    async migrate(rest, { masterKey, oldMasterKey }, mode) {
      const { KeyRing } = await import('#kernel/store/key-ring')
      const { prepareDatabase } = await import('./postgres/open.ts')
      const keys = new KeyRing({ current: needed(masterKey), old: oldMasterKey })
      return await prepareDatabase(ownAddress(rest), keys, { mode })
    },
    async examine(rest, nowMs) {
      const { examineDatabase } = await import('./postgres/examine.ts')
      return await examineDatabase(ownAddress(rest), nowMs)
    },
    async tables(rest) {
      const { openPostgresTables } = await import('./postgres/tables.ts')
      return await openPostgresTables(ownAddress(rest))
    },
    findDamage: () => Promise.resolve(undefined),
    backUp: (rest, target) =>
      Promise.reject(
        new StoreError(
          'not_written',
          `a database of PostgreSQL is copied with its own tools, for example: pg_dump --format=custom --file=${target} "${shownAddress(`postgres:${rest}`)}"`,
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
    migrate: () => Promise.reject(new Error('A store in memory always has the tables of today.')),
    tables: () => Promise.reject(new Error('A store in memory cannot be copied.')),
    findDamage: () => Promise.resolve(undefined),
    backUp: () => Promise.reject(new Error('A store in memory has no file to copy.')),
  },
]

/** How addresses of stores are written, for help texts. */
export const STORE_FORMS = STORE_TYPES.map(({ form }) => form).join(' or ')
/** The same for stores that outlive the process. */
export const KEPT_STORE_FORMS = STORE_TYPES.flatMap(({ form, kind }) =>
  kind === 'memory' ? [] : [form],
).join(' or ')
const FORMS = `Write ${STORE_TYPES.map(({ form }) => `"${form}"`).join(' or ')}.`

/** What an address names; a path is not absolute yet. */
type StoreUrl =
  | { readonly kind: 'invalid'; readonly problem: string }
  | { readonly kind: 'file'; readonly scheme: string; readonly path: string }
  | { readonly kind: 'server' | 'memory' }

/** Reads an address. Its text is not repeated in problems: it may hold a password. */
export function parseStoreUrl(text: string): StoreUrl {
  const found = find(text)
  if (found === undefined) return { kind: 'invalid', problem: `expected a store address. ${FORMS}` }
  const { type, scheme, rest } = found
  const problem = type.problemOf(rest)
  if (problem !== undefined) return { kind: 'invalid', problem }
  return type.kind === 'file' ? { kind: type.kind, scheme, path: rest } : { kind: type.kind }
}

export function describeStore(url: string): string {
  const { type, rest } = known(url)
  return type.describe(rest)
}

/** The address as it may be printed. */
export function shownStoreUrl(url: string): string {
  return known(url).type.kind === 'server' ? describeStore(url) : url
}

export async function openStore(url: string, options: OpenStoreOptions): Promise<Store> {
  const { type, rest } = known(url)
  const store = await type.open(rest, options)
  keepOutOfGit(options.dataFolder)
  return store
}

const DATA_FOLDER = '.collet'

/** Key, start token and calls are in the data folder: `git add .` must not take them. One that has another name holds other things too. */
export function keepOutOfGit(dataFolder: string): void {
  if (basename(dataFolder) !== DATA_FOLDER || !existsSync(dataFolder)) return
  try {
    writeFileSync(join(dataFolder, '.gitignore'), '*\n', { flag: 'wx' })
  } catch {
    // It is there already, or the folder cannot be written to: whoever needs to will hear of that elsewhere.
  }
}

/** Brings the tables up to date, or (`look`) says what would be done. */
export async function migrateStore(url: string, key: StoreKey, mode: SchemaMode): Promise<Migration> {
  const { type, rest } = known(url)
  return await type.migrate(rest, key, mode)
}

/** Copies a whole store into an empty database, or goes on with it. The key is that of the source. */
export async function copyStore(
  from: string,
  to: string,
  { onProgress, ...key }: StoreKey & { readonly onProgress: (progress: CopyProgress) => void },
): Promise<CopyResult> {
  const [source, target] = [known(from), known(to)]
  const { masterKey, oldMasterKey } = await keysFor(source.type, key)
  const { KeyRing } = await import('#kernel/store/key-ring')
  const { copyTables } = await import('./copy.ts')
  await source.type.migrate(source.rest, { ...key, masterKey, oldMasterKey }, 'require')
  const tables = await source.type.tables(source.rest)
  try {
    const filled = await target.type.tables(target.rest)
    try {
      const keys = new KeyRing({ current: masterKey, old: oldMasterKey })
      return await copyTables(tables, filled, { keys, onProgress })
    } finally {
      await filled.close()
    }
  } finally {
    await tables.close()
  }
}

async function keysFor({ kind }: StoreType, { masterKey, oldMasterKey, dataFolder }: StoreKey) {
  if (masterKey !== undefined || kind !== 'file') return { masterKey: needed(masterKey), oldMasterKey }
  const { readKeyFile } = await import('#kernel/store/key-file')
  return readKeyFile(join(dataFolder, KEY_FILE))
}

/** What can be seen of the server of a store; changes nothing. */
export async function examineStore(url: string, nowMs: () => number): Promise<readonly Finding[]> {
  const { type, rest } = known(url)
  return (await type.examine?.(rest, nowMs)) ?? []
}

export async function findStoreDamage(url: string): Promise<string | undefined> {
  const { type, rest } = known(url)
  return await type.findDamage(rest)
}

export async function backUpStore(url: string, target: string): Promise<void> {
  const { type, rest } = known(url)
  await type.backUp(rest, target)
}

/** Where an operator finds this process. */
function placeOf(port = 0): string {
  return `${hostname()}${port === 0 ? '' : `:${port}`} pid ${process.pid}`
}

function schemaMode({ mode, migrates = true }: Pick<OpenStoreOptions, 'mode' | 'migrates'>): SchemaMode {
  return mode === 'server' && migrates ? 'migrate' : 'require'
}

/** Without a pooler in between. */
function ownAddress(rest: string): string {
  return directAddress(`postgres:${rest}`) ?? connectionAddress(`postgres:${rest}`)
}

function needed(masterKey: Uint8Array | undefined): Uint8Array {
  if (masterKey === undefined) throw new StoreError('unreadable', KEY_NEEDED)
  return masterKey
}

function find(url: string) {
  const [, scheme = '', rest = ''] = /^([A-Za-z][A-Za-z0-9+.-]*):(.*)$/s.exec(url) ?? []
  const type = STORE_TYPES.find(({ schemes }) => schemes.includes(scheme))
  return type === undefined ? undefined : { type, scheme, rest }
}

function known(url: string) {
  const found = find(url)
  if (found !== undefined) return found
  throw new Error(`The store is not known. ${FORMS.replaceAll('"', "'")}`)
}
