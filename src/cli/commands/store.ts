import { type Command, defineCommand, EXIT } from '#cli/command'
import { STORE_OPTIONS, storeAccess } from '#cli/store-access'
import { describeStore } from '#store/stores'

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

export const COMMANDS: readonly Command[] = [migrate]
