import { defineCommand } from '#cli/command'
import { CommandFailure } from '#cli/command-failure'
import { EXIT } from '#cli/exit-codes'
import { headText } from '#cli/journal-line'
import { STORE_OPTIONS, storeAccess } from '#cli/operator-store'

export const journalHeads = defineCommand<'store' | 'config'>({
  name: 'journal heads',
  summary: 'Prints the end of each chain, to be kept elsewhere for journal verify --head.',
  details: ['The journal is checked first: the heads of a broken one would be worth nothing.'],
  positionals: [],
  options: STORE_OPTIONS,
  examples: ['collet journal heads > heads.txt'],
  async run(args, context) {
    const { output, json, services } = context
    const access = await storeAccess(args, context)
    const { ok, heads } = await output.during('Checking the journal', services.verifyJournal(access, []))
    if (!ok)
      throw new CommandFailure(EXIT.toolFailed, 'The journal does not hold. See: collet journal verify')
    if (json) output.json(heads)
    else for (const head of heads) output.data(headText(head))
    return EXIT.ok
  },
})
