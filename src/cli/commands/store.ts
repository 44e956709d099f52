import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { operatorName } from '#cli/admin-client'
import { type CheckedStore, readIfPossible } from '#cli/check-names'
import { type CommandContext, CommandFailure, defineCommand, EXIT, UsageError } from '#cli/command'
import { STORE_OPTIONS, type StoreArguments, storeAccess, withStore } from '#cli/store-access'
import { decodeMasterKey } from '#config/environment'
import { keyFileIn, locateStore } from '#config/to-settings'
import { cleanText } from '#kernel/base/json'
import type { KeyChangeEnd, KeyProgress, KeyStatus, LaggingWriter } from '#store/rotation'
import { describeStore, KEPT_STORE_FORMS } from '#store/stores'

/**
 * `collet backup`, `collet migrate`, `collet store copy` and `collet store rekey`: maintenance of the store itself,
 * without a server. Invariant: nothing is overwritten, and an interrupted copy or change of the key continues when it
 * is run again.
 */

const backup = defineCommand<'store' | 'config'>({
  name: 'backup',
  summary: 'Copies the database to a new file, even while a server uses it.',
  details: [
    'A plain copy of the file would miss what is still in its -wal file. Nothing is overwritten. The key is not copied:',
    'back it up as well, in another place. To restore, stop the server, put both back and remove any old -wal file beside the database.',
    'A database of PostgreSQL is backed up with its own tools (pg_dump); this command prints how.',
  ],
  positionals: [{ name: 'FILE', help: 'The new file; it must not exist yet.' }],
  options: STORE_OPTIONS,
  examples: ['collet backup /backups/collet-monday.db'],
  async run(args, context) {
    const { output, json, services, workingFolder, environment } = context
    const [name = ''] = args.positionals
    const file = resolve(workingFolder, name)
    if (existsSync(file)) throw new UsageError(`${file} already exists. Name a new file, or move that one.`)
    if (!existsSync(dirname(file)))
      throw new UsageError(`There is no folder ${dirname(file)}. Create it, or name a file elsewhere.`)
    const access = await storeAccess(args, context)
    await output.during('Copying', services.backUp(access, file))
    const key = environment.masterKey === undefined ? keyFileIn(access.dataFolder) : 'COLLET_KEY'
    if (json) {
      output.json({ file, key })
      return
    }
    output.data(file)
    output.note(`Back up the key (${key}) as well, in another place: without it the copy cannot be read.`)
  },
})

const migrate = defineCommand<'dry-run' | 'store' | 'config'>({
  name: 'migrate',
  summary: 'Migrates the tables of a store to this version of Collet.',
  details: [
    'A server also does this when it starts, unless it is started with --no-migrate. Several may migrate at once: one does the work',
    'and the others wait. The steps run in one transaction and cannot be undone: make a backup first.',
  ],
  options: {
    'dry-run': { help: 'Only print what would be done.' },
    ...STORE_OPTIONS,
  },
  examples: ['collet migrate --dry-run', 'collet migrate --store postgres://owner@db.example/collet'],
  async run(args, context) {
    const { output, json, services } = context
    const isDry = args.flag('dry-run')
    const access = await storeAccess(args, context)
    const migrating = services.migrate(access, isDry ? 'inspect' : 'migrate')
    const { from, to } = await output.during('Migrating', migrating)
    const store = describeStore(access.url)
    if (json) output.json({ store, from, to, changed: !isDry && from !== to })
    else if (from === to) output.data(`${store} is up to date: schema ${to}`)
    else output.data(`${store}: schema ${from} → ${to}${isDry ? ' (not done: --dry-run)' : ''}`)
  },
})

const storeCopy = defineCommand<never>({
  name: 'store copy',
  summary: 'Copies a whole store into an empty database of any kind: from SQLite to PostgreSQL, or back.',
  details: [
    'Stop the servers of FROM first. Everything is copied: calls and their outcomes, parked calls, approvals, keys, vault, pins, sources, journal.',
    'Encrypted data stays encrypted, so TO uses the key of FROM: COLLET_KEY, or the key file beside FROM. An interrupted copy continues when it is',
    'run again, and no server opens TO before every row is copied and its journal is verified. FROM is not changed.',
  ],
  positionals: [
    { name: 'FROM', help: `${KEPT_STORE_FORMS}, up to date (collet migrate).` },
    { name: 'TO', help: 'A store in one of the same forms; it must be empty.' },
  ],
  options: {},
  examples: ['collet store copy sqlite:.collet/collet.db postgres://collet@db.example/collet'],
  async run(args, context) {
    const { output, json, services, environment, workingFolder } = context
    const [from = '', to = ''] = args.positionals
    const source = locateStore(from, workingFolder, 'FROM')
    const target = locateStore(to, workingFolder, 'TO')
    if (source.kind === 'memory' || target.kind === 'memory')
      throw new UsageError('A store in memory cannot be copied: only its own server can see it.')
    if (source.store === target.store) throw new UsageError('FROM and TO are the same store.')
    if (source.file !== undefined && !existsSync(source.file))
      throw new UsageError(`There is no database at ${source.file}.`)
    const masterKey = decodeMasterKey(environment.masterKey)
    const progress = output.progress()
    const { kind, tables, chains } = await services
      .copyStore(source.store, target.store, {
        dataFolder: source.dataFolder,
        masterKey,
        onProgress: ({ table, rows, total }) =>
          progress.show(rows / Math.max(1, total), `${rows} of ${total} rows (${table})`),
      })
      .finally(progress.end)
    const rows = tables.reduce((sum, table) => sum + table.rows, 0)
    if (json) {
      output.json({ kind, rows, chains, tables })
      return
    }
    const name = describeStore(target.store)
    const size = `${rows} rows in ${tables.length} tables, ${chains} chains of the journal`
    output.data(
      kind === 'already'
        ? `${name} is already a copy: ${size}`
        : `Copied to ${name}: ${size}, counted and checked`,
    )
    if (masterKey !== undefined) return
    const keyFile = keyFileIn(source.dataFolder)
    output.note(
      target.file === undefined
        ? `Start servers with the same key: COLLET_KEY="$(cat ${keyFile})"`
        : `Copy the key as well, unless it is there: ${keyFile} to ${keyFileIn(target.dataFolder)}`,
    )
  },
})

/** Servers look for a new key every second; the command gives up if a server does not use it after this time. */
const MAX_WAIT_MS = 30_000

const storeRekey = defineCommand<'status' | 'store' | 'config'>({
  name: 'store rekey',
  summary: 'Changes COLLET_KEY: encrypts everything again under the new key, while servers run.',
  details: [
    'First give every server, and this command, the new key as COLLET_KEY and the current one as COLLET_KEY_OLD, and restart the servers one after another.',
    '(With a key file: put the new key on a line before the current one.) When this command is done, remove the old key and restart them once more.',
    'It may be interrupted at any time; run it again to continue. Approval links that were sent before stop working, and consents in progress must start again.',
  ],
  options: {
    status: { help: 'Only show which key the store is under, and the progress of a change.' },
    ...STORE_OPTIONS,
  },
  examples: [
    'COLLET_KEY=$NEW COLLET_KEY_OLD=$CURRENT collet store rekey',
    'collet store rekey --status --json',
  ],
  run: (args, context) => (args.flag('status') ? showKeyStatus(args, context) : rekey(args, context)),
})

async function rekey(args: StoreArguments, context: CommandContext): Promise<undefined> {
  const { output, json, clock } = context
  const shown = new Set<string>()
  const report = (progress: KeyProgress): void => {
    const text = progressText(progress)
    if (!shown.has(text)) output.note(text)
    shown.add(text)
  }
  const end = await withStore(args, context, async (store) => {
    const { step, hasOldKey } = await store.keyChange.status()
    if (step === 'none' && !hasOldKey) throw new CommandFailure(EXIT.usage, NOTHING_TO_CHANGE_TO)
    const terms = { by: operatorName(context), nowMs: () => clock.nowMs(), maxWaitMs: MAX_WAIT_MS }
    return store.keyChange.rotate({ ...terms, onProgress: report })
  })
  const text = endText(end)
  if (end.kind === 'lacking' || end.kind === 'waiting') throw new CommandFailure(EXIT.toolFailed, text)
  if (json) output.json(end)
  else output.data(text)
}

async function showKeyStatus(args: StoreArguments, context: CommandContext): Promise<undefined> {
  const { output, json } = context
  const status = await withStore(args, context, (store) => store.keyChange.status())
  const found = describeKeyStatus(status)
  if (json) output.json(statusJson(status))
  else output.data(found?.message ?? `Everything is under COLLET_KEY (generation ${status.generation}).`)
  if (found !== undefined) output.note(found.advice)
}

function statusJson({ generation, hasOldKey, step, due, writers }: KeyStatus) {
  const waiting = writers.map(({ writer, place, startedMs }) => ({ writer, place, started_ms: startedMs }))
  return { generation, has_old_key: hasOldKey, step, due, writers: waiting }
}

/**
 * Findings about the key of a store, for `collet doctor`. A store that cannot be opened is reported by another check.
 */
export async function findKeyChange(store: CheckedStore): Promise<readonly Finding[]> {
  const status = await readIfPossible(store, ({ keyChange }) => keyChange.status())
  const found = status === undefined ? undefined : describeKeyStatus(status)
  return found === undefined ? [] : [found]
}

interface Finding {
  readonly message: string
  readonly advice: string
}

/** Describes an unusual state of the key with the next step; `undefined` if there is none. */
function describeKeyStatus({ step, hasOldKey, due, writers }: KeyStatus): Finding | undefined {
  const waiting = (label: string) => (writers.length === 0 ? '' : `. ${label}: ${writersText(writers)}`)
  if (step === 'not begun')
    return {
      message: `The store is still under COLLET_KEY_OLD${waiting('Running without the new key')}`,
      advice: 'When every server has both keys, run: collet store rekey',
    }
  if (step !== 'none')
    return {
      message: `The change of the key is under way: ${due === 1 ? '1 row is' : `${due} rows are`} still under the previous key${waiting('Not yet using the new key')}`,
      advice: 'To continue it, run: collet store rekey',
    }
  if (!hasOldKey) return undefined
  const message = 'COLLET_KEY_OLD is set and no longer needed'
  return { message, advice: 'Remove it and restart the servers.' }
}

const NOTHING_TO_CHANGE_TO =
  'Set COLLET_KEY to the new key and COLLET_KEY_OLD to the current one, here and for every server. collet keys generate makes a key.'

function progressText(progress: KeyProgress): string {
  if (progress.step === 'announced') return 'Waiting until every server can read the new keys'
  const { what, done, total } = progress
  return `Re-encrypted: ${done} of ${total} (${what})`
}

function endText(end: KeyChangeEnd): string {
  switch (end.kind) {
    case 'done':
      return `Everything is under the new key (generation ${end.generation}, ${end.resealed} rows encrypted again). Remove COLLET_KEY_OLD and restart the servers.`
    case 'nothing':
      return 'Everything is under COLLET_KEY already. Remove COLLET_KEY_OLD.'
    case 'lacking':
      return `Nothing was changed, because these run without the new key: ${writersText(end.writers)}. Restart them with both COLLET_KEY and COLLET_KEY_OLD, then run this again.`
    case 'waiting':
      return `These do not use the new key yet: ${writersText(end.writers)}. Wait for them or restart them, then run this again. Finished steps are kept.`
  }
}

function writersText(writers: readonly LaggingWriter[]): string {
  const each = writers.map(({ writer, place = writer, startedMs }) => {
    return `${cleanText(place)} (running since ${new Date(startedMs).toISOString()})`
  })
  return each.join(', ')
}

export const COMMANDS = [backup, migrate, storeCopy, storeRekey]
