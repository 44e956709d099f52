import { StoreError } from '#kernel/base/errors'
import { canonicalJson, isJsonObject, isRecord, type JsonObject, type JsonValue } from '#kernel/base/json'
import { EventLoopYielder } from '#kernel/base/long-work'
import type { ChangeClass, PinChanged, SourceChanged } from '#kernel/journal/events'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing, ResealableRows } from '#kernel/store/key-ring'
import type { GuardedTable, StoreModule } from '#kernel/store/module'
import { rowMac } from '#kernel/store/row-mac'
import { bytes, integer, optionalText, readEpoch, text } from '#kernel/store/rows'
import { nextRevision } from '#sources/kit/pins'
import type { OfferedTool } from '#sources/kit/source'
import { changedRules, targetOf } from '#sources/kit/source-facts'
import { type Attribution, mapped, texts } from './steps.ts'

/**
 * Sources that were added while the server runs, and the pins of imported definitions (rule 32). The source kit reads and writes
 * both; `collet sources` and `collet pins` show them.
 * Options and definitions are sealed, because they may contain secrets. Every change raises an epoch and is journaled.
 */

const { get, all, write } = statements<keyof typeof queries>()

/** A source added by `collet import` or the console. Like the configuration, it does not belong to a tenant. */
interface StoredSource {
  readonly key: string
  /** Options as in the configuration: `{ type, … }`. May contain secrets. */
  readonly options: JsonObject
  readonly addedBy: string
  readonly addedMs: number
}

export interface NewSource extends StoredSource {
  readonly replace: boolean
}

/** A probe of a possible source. It may start a program. */
interface SourceProbe extends Attribution {
  /** The address, file or program, without possible secrets. */
  readonly target: string
}

export interface StoredDefinition {
  readonly hash: string
  readonly offered: OfferedTool
  readonly identity: JsonObject
}

export interface AcceptedDefinition extends StoredDefinition {
  readonly version: string
  readonly atMs: number
  /** The operator who accepted it, or `first sight`. */
  readonly by: string
}

/** A changed upstream definition that waits for an operator's decision. */
export interface WaitingChange {
  readonly kind: 'addition' | 'change' | 'removal'
  /** `undefined` for a removal. */
  readonly definition: StoredDefinition | undefined
  readonly class: ChangeClass
  readonly reasons: readonly string[]
  /** Native name of a tool that vanished when this one appeared. */
  readonly renamedFrom?: string
  readonly seenAtMs: number
  /** An operator rejected the change. The rejection applies as long as the upstream offers exactly this definition. */
  readonly rejected?: { readonly by: string; readonly atMs: number }
}

/** One tool of a source. Records are never deleted, so a name in an id is never reused. */
export interface PinRecord {
  readonly nativeName: string
  /** The tool's name within its id. */
  readonly local: string
  readonly accepted: AcceptedDefinition | undefined
  /** Whether agents see the tool; `false` until it is first accepted, and after its removal was accepted. */
  readonly isServed: boolean
  readonly waiting: WaitingChange | undefined
}

export interface PinnedSource {
  readonly source: string
  /** Counts writes to this source's pins; 0: never seen; negative: its first discovery is not finished. */
  readonly revision: number
  readonly pins: readonly PinRecord[]
}

export interface PinWrite {
  readonly source: string
  /** The revision that the change is based on. */
  readonly seen: number
  /** More rows of the first discovery follow. Until the last of them is written, every tool counts as seen for the first time. */
  readonly isPartial?: boolean
  readonly pins: readonly PinRecord[]
  /** Whether the write changes what agents see or what calls do. */
  readonly changesServed: boolean
  readonly events: readonly PinChanged[]
}

export function openSources({ exclusive, read, keys }: StoreContext) {
  const order = ({ key }: { readonly key: string }) => `sources ${key}`
  return {
    list: read(() =>
      mapped(all('listSources'), (rows) => rows.map((row): StoredSource => sourceFromRow(row, keys))),
    ),
    put: exclusive(order, putSource),
    remove: exclusive(order, removeSource),
    /** Journals a probe before it starts. */
    recordProbe: exclusive(({ target }: SourceProbe) => `probe ${target}`, recordProbe),
    /** Raised by every change in any process; 0 before the first source is added. */
    epoch: read(() => readEpoch(SOURCE_EPOCH)),
  }
}

export type SourceStore = ReturnType<typeof openSources>

function* putSource(group: CommitGroup, source: NewSource): Steps<'added' | 'replaced' | 'exists'> {
  const { key, options, addedBy, addedMs, replace } = source
  const row = yield* get('sourceOptions', key)
  if (row !== undefined && !replace) return 'exists'
  const sealed = group.keys.seal('sources', Buffer.from(JSON.stringify(options)), sealContext(key))
  yield* write('putSource', key, sealed, addedBy, addedMs)
  yield* write('raiseEpoch', SOURCE_EPOCH)
  const before = row === undefined ? undefined : knownOptions(key, bytes(row, 'options'), group.keys)
  const event = sourcePutEvent(source, { before, digest: group.keys.digest(canonicalJson(options)) })
  group.append(event)
  yield* notifyOfSource(group, event)
  return before === undefined ? 'added' : 'replaced'
}

/** Unreadable options can be replaced too, but then their previous rules are unknown. */
function knownOptions(key: string, sealed: Uint8Array, keys: KeyRing): JsonObject {
  try {
    return openOptions(key, sealed, keys)
  } catch {
    return {}
  }
}

/** Adding a source may run a program as the server's user, so operators are notified. */
function* notifyOfSource(group: CommitGroup, event: SourceChanged): Steps<void> {
  const { type, at, by, source, sourceType = null, target = null, changes = {} } = event
  const replaced = type === 'source.replaced'
  const subject = { kind: 'source.added', source, sourceType, target, replaced, changes, by } as const
  yield* group.notify(subject, { about: JSON.stringify([source, at, event.options]), atMs: at })
}

function* removeSource(
  group: CommitGroup,
  { key, by, atMs }: Attribution & Pick<StoredSource, 'key'>,
): Steps<boolean> {
  if ((yield* write('deleteSource', key)) === 0) return false
  yield* write('raiseEpoch', SOURCE_EPOCH)
  group.append({ type: 'source.removed', at: atMs, source: key, by })
  return true
}

// biome-ignore lint/correctness/useYield: the journal alone is written
function* recordProbe(group: CommitGroup, { target, by, atMs }: SourceProbe): Steps<void> {
  group.append({ type: 'source.probed', at: atMs, target, by })
}

function sourceFromRow(row: Row, keys: KeyRing): StoredSource {
  const key = text(row, 'key')
  return {
    key,
    options: openOptions(key, bytes(row, 'options'), keys),
    addedBy: text(row, 'added_by'),
    addedMs: integer(row, 'added_at'),
  }
}

/** Binds the sealed options to the source's key, so that they cannot be moved to another source. */
function sealContext(key: string): string {
  return `source ${key}`
}

function openOptions(key: string, sealed: Uint8Array, keys: KeyRing): JsonObject {
  const options: JsonValue = JSON.parse(keys.open('sources', sealed, sealContext(key)).toString('utf8'))
  if (isJsonObject(options)) return options
  throw new StoreError('unreadable', `the options of source ${key} are not an object`)
}

const SOURCE_EPOCH = 'source_epoch'
const PIN_EPOCH = 'pin_epoch'

/** Rows are read in pages, so that a source with many tools does not block the serving thread. */
const PAGE_ROWS = 50
/** Reading starts again if another process wrote in between; needing more attempts than this is an error. */
const MAX_READS = 20

export function openPins({ exclusive, read, guard, keys }: StoreContext) {
  const revision = read((source: string) =>
    mapped(get('pinRevision', source), (row) => (row === undefined ? 0 : integer(row, 'revision'))),
  )
  const page = read((source: string, after: string) => all('pinsAfter', source, after, PAGE_ROWS))
  const readPages = async (source: string): Promise<readonly PinRecord[]> => {
    const yielder = new EventLoopYielder()
    const pins: PinRecord[] = []
    let after = ''
    for (;;) {
      const rows = await page(source, after)
      after = String(rows.at(-1)?.native_name ?? after)
      for (const row of rows) {
        // A row written without the key is ignored, so its tool waits to be accepted again.
        if (guard.isOwn(PINS, row)) pins.push(pinFromRow(row, keys))
        if (yielder.isDue) await yielder.yieldNow()
      }
      if (rows.length < PAGE_ROWS) return pins
    }
  }
  return {
    /** Returns the pins of a source in the order of their native names. */
    async read(source: string): Promise<PinnedSource> {
      for (let tries = 0; tries < MAX_READS; tries += 1) {
        const before = await revision(source)
        const pins = await readPages(source)
        if ((await revision(source)) === before) return { source, revision: before, pins }
      }
      throw new StoreError('unreadable', `other processes kept changing the pins of ${source}`)
    },
    /** Returns the revision without reading the definitions. */
    revision,
    /**
     * Writes all rows, or returns `stale` if another write has come after `seen`. The first write for a source inserts a unique row,
     * so if two replicas discover the source at once, one pins its tools and the other reads these pins (rule 32).
     */
    write: exclusive(({ source }) => `pins ${source}`, writePins),
    /** Keys of all sources ever seen, sorted. */
    sources: read(() => mapped(all('pinSources'), (rows) => rows.map((row) => text(row, 'source')))),
    /** Raised by every change to the served tools, in any process. */
    epoch: read(() => readEpoch(PIN_EPOCH)),
  }
}

export type PinStore = ReturnType<typeof openPins>

function* writePins(group: CommitGroup, change: PinWrite): Steps<'written' | 'stale'> {
  const { source, seen, pins, changesServed, events } = change
  const next = nextRevision(change)
  const written =
    seen === 0
      ? yield* write('insertPinSource', source, next)
      : yield* write('raisePinRevision', next, source, seen)
  if (written === 0) return 'stale'
  for (const pin of pins) yield* writePin(group, source, pin)
  if (changesServed) yield* write('raiseEpoch', PIN_EPOCH)
  for (const event of events) group.append(event)
  yield* notifyOfHeld(group, change)
  return 'written'
}

const MAX_REPORTED = 20

/** One notice for all tools: a source may change hundreds of definitions at once. */
function* notifyOfHeld(group: CommitGroup, change: PinWrite): Steps<void> {
  const { source, events } = change
  const held = events.filter((event) => event.type === 'pin.held')
  const [first] = held
  if (first === undefined) return
  const tools = held.slice(0, MAX_REPORTED).map(({ tool = '', class: found = 'breaking', hash = '' }) => ({
    tool,
    class: found,
    hash,
  }))
  yield* group.notify(
    { kind: 'pin.held', source, count: held.length, tools },
    { about: JSON.stringify([source, nextRevision(change)]), atMs: first.at },
  )
}

function* writePin(group: Pick<CommitGroup, 'keys'>, source: string, pin: PinRecord): Steps<void> {
  const { nativeName, local, isServed, accepted, waiting } = pin
  const address = { source, native_name: nativeName }
  const row = {
    ...address,
    local,
    served: isServed ? 1 : 0,
    accepted: sealDefinition(group, accepted, { ...address, column: 'accepted' }),
    waiting: sealDefinition(group, waiting, { ...address, column: 'waiting' }),
  }
  yield* write('writePin', ...Object.values(row), rowMac(group.keys.current, PINS, row))
}

/** Binds a sealed definition to its row and column, so that it cannot be moved elsewhere. */
interface DefinitionAddress {
  readonly source: string
  readonly native_name: string
  readonly column: 'accepted' | 'waiting'
}

function definitionContext({ source, native_name: name, column }: DefinitionAddress): string {
  return JSON.stringify(['pin', source, name, column])
}

/** Definitions are sealed, because commands, paths and addresses in them may be secret. */
function sealDefinition(
  { keys }: Pick<CommitGroup, 'keys'>,
  value: AcceptedDefinition | WaitingChange | undefined,
  address: DefinitionAddress,
): string | null {
  if (value === undefined) return null
  return keys.sealText('pins', JSON.stringify(value), definitionContext(address))
}

function pinFromRow(row: Row, keys: KeyRing): PinRecord {
  const address = texts(row, 'source', 'native_name')
  const opened = <Value>(
    column: DefinitionAddress['column'],
    isValid: (value: unknown) => value is Value,
  ): Value | undefined => {
    const sealed = optionalText(row, column)
    if (sealed === undefined) return undefined
    const context = definitionContext({ ...address, column })
    const value: unknown = JSON.parse(keys.openText('pins', sealed, context))
    if (isValid(value)) return value
    throw new StoreError('unreadable', 'the database contains a pinned definition that cannot be read')
  }
  return {
    nativeName: address.native_name,
    local: text(row, 'local'),
    accepted: opened('accepted', isAccepted),
    isServed: integer(row, 'served') === 1,
    waiting: opened('waiting', isWaiting),
  }
}

function isAccepted(value: unknown): value is AcceptedDefinition {
  return isKept(value) && 'version' in value && typeof value.version === 'string'
}

function isWaiting(value: unknown): value is WaitingChange {
  if (!isRecord(value) || !('kind' in value) || !('class' in value)) return false
  return !('definition' in value) || isKept(value.definition)
}

function isKept(value: unknown): value is StoredDefinition {
  if (!isRecord(value) || typeof value.hash !== 'string' || !isRecord(value.identity)) return false
  const { offered } = value
  return (
    isRecord(offered) &&
    ['nativeName', 'inputSchema', 'binding', 'policy'].every((member) => member in offered)
  )
}

function sourcePutEvent(
  { key, options, addedBy, addedMs }: NewSource,
  /** The replaced options, and a keyed digest of the new options. */
  { before, digest }: { readonly before: JsonObject | undefined; readonly digest: string },
): SourceChanged {
  const { type: kind } = options
  const target = targetOf(options)
  const changes = changedRules(before ?? {}, options)
  return {
    type: before === undefined ? 'source.added' : 'source.replaced',
    at: addedMs,
    source: key,
    ...(typeof kind === 'string' ? { sourceType: kind } : {}),
    ...(target === undefined ? {} : { target }),
    options: digest,
    ...(Object.keys(changes).length === 0 ? {} : { changes }),
    by: addedBy,
  }
}

/** No checked reads, because `readPages` checks each row itself. */
const PINS: GuardedTable = {
  table: 'pins',
  columns: ['source', 'native_name', 'local', 'served', 'accepted', 'waiting'],
  names: ['source', 'native_name'],
  checkedReads: [],
  *resealContents(group, row) {
    yield* writePin(group, text(row, 'source'), pinFromRow(row, group.keys))
  },
}

const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'options of sources', page: 'sourcesAfter', start: [''] },
    after: (row) => [text(row, 'key')],
    isDue: (row, keys) => keys.isDue('sources', bytes(row, 'options'), sealContext(text(row, 'key'))),
    *reseal({ keys }, row) {
      const key = text(row, 'key')
      yield* write('resealSource', keys.reseal('sources', bytes(row, 'options'), sealContext(key)), key)
    },
  },
]

const queries = {
  pinRevision: 'SELECT revision FROM pin_sources WHERE source = ?',
  insertPinSource: 'INSERT INTO pin_sources (source, revision) VALUES (?, ?) ON CONFLICT (source) DO NOTHING',
  raisePinRevision: 'UPDATE pin_sources SET revision = ? WHERE source = ? AND revision = ?',
  pinSources: 'SELECT source FROM pin_sources ORDER BY source',
  pinsAfter: 'SELECT * FROM pins WHERE source = ? AND native_name > ? ORDER BY native_name LIMIT ?',
  writePin: `INSERT INTO pins (source, native_name, local, served, accepted, waiting, mac) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (source, native_name)
    DO UPDATE SET local = excluded.local, mac = excluded.mac, served = excluded.served, accepted = excluded.accepted, waiting = excluded.waiting`,
  sourcesAfter: 'SELECT key, options FROM sources WHERE key > ? ORDER BY key LIMIT ?',
  resealSource: 'UPDATE sources SET options = ? WHERE key = ?',
  listSources: 'SELECT * FROM sources ORDER BY key',
  sourceOptions: 'SELECT options FROM sources WHERE key = ?',
  putSource: `INSERT INTO sources (key, options, added_by, added_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET options = excluded.options, added_by = excluded.added_by, added_at = excluded.added_at`,
  deleteSource: 'DELETE FROM sources WHERE key = ?',
} as const

const tables = `
CREATE TABLE pin_sources (
  source TEXT PRIMARY KEY,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE pins (
  source TEXT NOT NULL,
  native_name TEXT NOT NULL,
  local TEXT NOT NULL,
  served INTEGER NOT NULL,
  accepted TEXT,
  waiting TEXT,
  mac TEXT,
  PRIMARY KEY (source, native_name),
  UNIQUE (source, local)
) STRICT;

CREATE TABLE sources (
  key TEXT PRIMARY KEY,
  options BLOB NOT NULL,
  added_by TEXT NOT NULL,
  added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`

export const importModule: StoreModule = { name: 'imports', tables, queries, resealing, guarded: [PINS] }
