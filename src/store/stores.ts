import { join } from 'node:path'
import type { Store } from '#core/ports/store'

/** How a process opens a store. */
interface OpenStoreOptions {
  /** Folder of the key file. */
  readonly dataFolder: string
  /** `COLLET_KEY`; without it the key file is used. */
  readonly masterKey: Uint8Array | undefined
  /** Operators' commands never make a key file: a missing one means they look in the wrong place. */
  readonly mode: 'server' | 'operator'
  readonly onCommit?: ((changes: number, durationMs: number) => void) | undefined
  /** Called for rows that decide and were changed without the key. */
  readonly onForeign?: ((row: string, table: string) => void) | undefined
}

/** A kind of store. `rest` is what its address has after the scheme; what it needs is loaded when it is used. */
interface StoreType {
  readonly scheme: string
  /** How its address is written. */
  readonly form: string
  /** Whether calls outlive the process, and other processes can open it. */
  readonly isKept: boolean
  /** What is wrong with an address. */
  problemOf(rest: string): string | undefined
  /** What the operator reads at the start. */
  describe(rest: string): string
  open(rest: string, options: OpenStoreOptions): Promise<Store>
  /** What is broken in its file, in the words of the database. */
  findDamage(rest: string): Promise<string | undefined>
  /** Copies it, also while a server uses it, to a file that must not be there yet. */
  backUp(rest: string, target: string): Promise<void>
}

const KEY_FILE = 'key'
export const DEFAULT_STORE = 'sqlite:.collet/collet.db'

const STORE_TYPES: readonly StoreType[] = [
  {
    scheme: 'sqlite',
    form: 'sqlite:PATH',
    isKept: true,
    problemOf(path) {
      if (path === '') return `"sqlite:" needs a path, for example "${DEFAULT_STORE}".`
      if (path === ':memory:') return 'a store without a file is written "memory:".'
      if (path.startsWith('//')) {
        return `write the path directly after "sqlite:", without "//", for example "${DEFAULT_STORE}".`
      }
      return path.includes('\0') ? 'a path cannot contain NUL.' : undefined
    },
    describe: (path) => path,
    async open(path, { dataFolder, masterKey, mode, ...observers }) {
      const { readKeyFile, readOrCreateKeyFile } = await import('./encryption.ts')
      const { openSqliteStore } = await import('./sqlite/sqlite-store.ts')
      const file = join(dataFolder, KEY_FILE)
      const read = () => (mode === 'server' ? readOrCreateKeyFile(file, path) : readKeyFile(file))
      return openSqliteStore({ path, masterKey: masterKey ?? read(), ...observers })
    },
    async findDamage(path) {
      const { findDamage } = await import('./sqlite/database.ts')
      return findDamage(path)
    },
    async backUp(path, target) {
      const { backUpDatabase } = await import('./sqlite/database.ts')
      backUpDatabase(path, target)
    },
  },
  {
    scheme: 'memory',
    form: 'memory:',
    isKept: false,
    problemOf: (rest) => (rest === '' ? undefined : '"memory:" takes nothing after the colon.'),
    describe: () => 'in memory: gone when the server stops',
    async open(_rest, { onCommit, onForeign }) {
      const { openMemoryStore } = await import('./sqlite/sqlite-store.ts')
      return openMemoryStore({ onCommit, onForeign })
    },
    findDamage: () => Promise.resolve(undefined),
    backUp: () => Promise.reject(new Error('A store in memory has no file to copy.')),
  },
]

/** How addresses of stores are written, for help texts. */
export const STORE_FORMS = STORE_TYPES.map(({ form }) => form).join(' or ')
/** The same for stores that outlive the process. */
export const KEPT_STORE_FORMS = STORE_TYPES.flatMap(({ form, isKept }) => (isKept ? [form] : [])).join(' or ')
const FORMS = `Write ${STORE_TYPES.map(({ form }) => `"${form}"`).join(' or ')}.`

/** What an address names, before its path is made absolute. */
type StoreUrl =
  | { readonly kind: 'invalid'; readonly problem: string }
  | { readonly kind: 'kept'; readonly scheme: string; readonly path: string }
  | { readonly kind: 'memory' }

/** Reads an address. Its text is not repeated in problems: it may hold a password. */
export function parseStoreUrl(text: string): StoreUrl {
  const found = find(text)
  if (found !== undefined) {
    const problem = found.type.problemOf(found.rest)
    if (problem !== undefined) return { kind: 'invalid', problem }
    const { isKept, scheme } = found.type
    return isKept ? { kind: 'kept', scheme, path: found.rest } : { kind: 'memory' }
  }
  const problem = /^postgres(?:ql)?:/.test(text)
    ? 'PostgreSQL stores come in a later release.'
    : 'expected a store address.'
  return { kind: 'invalid', problem: `${problem} ${FORMS}` }
}

export function describeStore(url: string): string {
  const { type, rest } = known(url)
  return type.describe(rest)
}

export async function openStore(url: string, options: OpenStoreOptions): Promise<Store> {
  const { type, rest } = known(url)
  return await type.open(rest, options)
}

export async function findStoreDamage(url: string): Promise<string | undefined> {
  const { type, rest } = known(url)
  return await type.findDamage(rest)
}

export async function backUpStore(url: string, target: string): Promise<void> {
  const { type, rest } = known(url)
  await type.backUp(rest, target)
}

function find(url: string): { readonly type: StoreType; readonly rest: string } | undefined {
  const [, scheme = '', rest = ''] = /^([A-Za-z][A-Za-z0-9+.-]*):(.*)$/s.exec(url) ?? []
  const type = STORE_TYPES.find((one) => one.scheme === scheme)
  return type === undefined ? undefined : { type, rest }
}

function known(url: string) {
  const found = find(url)
  if (found !== undefined) return found
  throw new Error(`The store '${url}' is not known. ${FORMS.replaceAll('"', "'")}`)
}
