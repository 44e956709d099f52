import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Command, defineCommand, EXIT, UsageError } from '#cli/command'
import { STORE_OPTIONS, storeAccess } from '#cli/store-access'
import { keyFileIn } from '#config/to-settings'
import { describeStore } from '#store/stores'

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

export const COMMANDS: readonly Command[] = [backup, migrate]
