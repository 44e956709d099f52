import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { STORE_OPTIONS, storeAccess } from '#cli/operator-store'
import { UsageError } from '#cli/usage-error'
import { keyFileIn } from '#config/to-settings'

export const backup = defineCommand<'store' | 'config'>({
  name: 'backup',
  summary: 'Copies the database to a new file, also while a server uses it.',
  details: [
    'A plain copy of the file would miss what is still in its -wal file. Nothing is overwritten, and the key is not copied:',
    'keep it too, in another place. To restore, stop the server, put both back and remove an old -wal file beside the database.',
  ],
  positionals: [{ name: 'FILE', help: 'Where to; must not be there yet.' }],
  options: STORE_OPTIONS,
  examples: ['collet backup /backups/collet-monday.db'],
  async run(args, context) {
    const { output, json, services, workingFolder, environment } = context
    const [name = ''] = args.positionals
    const file = resolve(workingFolder, name)
    if (existsSync(file)) throw new UsageError(`${file} is there already. Name a new file, or move that one.`)
    const access = await storeAccess(args, context)
    await output.during('Copying', services.backUp(access, file))
    const key = environment.masterKey === undefined ? keyFileIn(access.dataFolder) : 'COLLET_KEY'
    if (json) {
      output.json({ file, key })
      return EXIT.ok
    }
    output.data(file)
    output.note(`Keep the key (${key}) too, in another place: without it the copy cannot be read.`)
    return EXIT.ok
  },
})
