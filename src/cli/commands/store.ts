import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Command, defineCommand, EXIT, UsageError } from '#cli/command'
import { STORE_OPTIONS, storeAccess } from '#cli/store-access'
import { decodeMasterKey } from '#config/environment'
import { keyFileIn, locateStore } from '#config/to-settings'
import { describeStore, KEPT_STORE_FORMS } from '#store/stores'

const backup = defineCommand<'store' | 'config'>({
  name: 'backup',
  summary: 'Copies the database to a new file, even while a server uses it.',
  details: [
    'A plain copy of the file would miss what is still in its -wal file. Nothing is overwritten. The key is not copied:',
    'back it up as well, in another place. To restore, stop the server, put both back and remove any old -wal file beside the database.',
    'A database of PostgreSQL is backed up with its own tools (pg_dump); the command says how.',
  ],
  positionals: [{ name: 'FILE', help: 'The new file; it must not exist yet.' }],
  options: STORE_OPTIONS,
  examples: ['collet backup /backups/collet-monday.db'],
  async run(args, context) {
    const { output, json, services, workingFolder, environment } = context
    const [name = ''] = args.positionals
    const file = resolve(workingFolder, name)
    if (existsSync(file)) throw new UsageError(`${file} already exists. Name a new file, or move that one.`)
    const access = await storeAccess(args, context)
    await output.during('Copying', services.backUp(access, file))
    const key = environment.masterKey === undefined ? keyFileIn(access.dataFolder) : 'COLLET_KEY'
    if (json) {
      output.json({ file, key })
      return EXIT.ok
    }
    output.data(file)
    output.note(`Back up the key (${key}) as well, in another place: without it the copy cannot be read.`)
    return EXIT.ok
  },
})

const migrate = defineCommand<'dry-run' | 'store' | 'config'>({
  name: 'migrate',
  summary: 'Brings the tables of a store up to what this version of Collet needs.',
  details: [
    'A server does the same when it starts, unless it is started with --no-migrate. Several may do it at once: one does the work',
    'and the others wait. All steps are made or none, and there is no way back but a backup: make one first.',
  ],
  positionals: [],
  options: {
    'dry-run': { help: 'Only say what would be done.' },
    ...STORE_OPTIONS,
  },
  examples: ['collet migrate --dry-run', 'collet migrate --store postgres://owner@db.example/collet'],
  async run(args, context) {
    const { output, json, services } = context
    const isDry = args.flag('dry-run')
    const access = await storeAccess(args, context)
    const { from, to } = await output.during(
      'Migrating',
      services.migrate(access, isDry ? 'look' : 'migrate'),
    )
    const store = describeStore(access.url)
    if (json) output.json({ store, from, to, changed: !isDry && from !== to })
    else if (from === to) output.data(`${store} is up to date: schema ${to}`)
    else output.data(`${store}: schema ${from} → ${to}${isDry ? ' (not done: --dry-run)' : ''}`)
    return EXIT.ok
  },
})

const storeCopy = defineCommand<never>({
  name: 'store copy',
  summary: 'Copies a whole store into an empty database of any kind: from SQLite to PostgreSQL, or back.',
  details: [
    'Stop the servers of FROM first. Everything comes along: calls and their outcomes, parked calls, approvals, keys, vault, pins, sources, journal.',
    'Sealed data stays sealed, so TO has the key of FROM: COLLET_KEY, or the key file beside FROM. A copy that was cut goes on when it is',
    'run again, and no server opens TO before every row is there and the journal in it is checked. FROM is left as it is.',
  ],
  positionals: [
    { name: 'FROM', help: `${KEPT_STORE_FORMS}, up to date (collet migrate).` },
    { name: 'TO', help: 'The same forms; there must be nothing in it.' },
  ],
  options: {},
  examples: ['collet store copy sqlite:.collet/collet.db postgres://collet@db.example/collet'],
  async run(args, context) {
    const { output, json, services, environment, workingFolder } = context
    const [from = '', to = ''] = args.positionals
    const source = locateStore(from, workingFolder, 'FROM')
    const target = locateStore(to, workingFolder, 'TO')
    if (source.kind === 'memory' || target.kind === 'memory')
      throw new UsageError('A store in memory cannot be copied: it is seen by its server only.')
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
      return EXIT.ok
    }
    const [name, size] = [
      describeStore(target.store),
      `${rows} rows in ${tables.length} tables, ${chains} chains of the journal`,
    ]
    output.data(
      kind === 'already'
        ? `${name} is that copy already: ${size}`
        : `Copied to ${name}: ${size}, counted and checked`,
    )
    if (masterKey === undefined) {
      const keyFile = keyFileIn(source.dataFolder)
      output.note(
        target.file === undefined
          ? `Start servers with the same key: COLLET_KEY="$(cat ${keyFile})"`
          : `Copy the key as well, unless it is there: ${keyFile} to ${keyFileIn(target.dataFolder)}`,
      )
    }
    return EXIT.ok
  },
})

export const COMMANDS: readonly Command[] = [backup, migrate, storeCopy]
