import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { parseHead } from '#cli/journal-line'
import { STORE_OPTIONS, storeAccess } from '#cli/operator-store'
import type { JournalVerification } from '#cli/services'
import { UsageError } from '#cli/usage-error'
import type { JournalHead } from '#core/journal/events'
import { cleanText } from '#core/json'

export const journalVerify = defineCommand<'head' | 'store' | 'config'>({
  name: 'journal verify',
  summary: 'Checks that no recorded event, approval, key or pin was changed, without a server.',
  details: [
    'Exit code 1 means that the journal or a row that decides does not hold; the first bad group and every bad row are named.',
  ],
  positionals: [],
  options: {
    head: {
      value: 'H',
      many: true,
      help: 'A head kept elsewhere (collet journal heads): shows a cut end too.',
    },
    ...STORE_OPTIONS,
  },
  examples: ['collet journal verify', 'collet journal verify --head "$(cat heads.txt)"'],
  async run(args, context) {
    const { output, json, services } = context
    const kept = args.texts('head').flatMap(readHeads)
    const access = await storeAccess(args, context)
    const result = await output.during('Checking the journal', services.verifyJournal(access, kept))
    if (json) output.json(result)
    else for (const line of describe(result)) output.data(line)
    return result.ok ? EXIT.ok : EXIT.toolFailed
  },
})

/** One head, or the whole output of `journal heads`. */
function readHeads(text: string): JournalHead[] {
  return text
    .split(/\s+/)
    .filter((line) => line !== '')
    .map((line) => {
      const head = parseHead(line)
      if (head !== undefined) return head
      throw new UsageError('--head expects WRITER:GROUP:LINK as collet journal heads prints it.')
    })
}

function describe(result: JournalVerification): string[] {
  const { ok, groups, events, chains, firstBad, rows, badRows, cannotSee } = result
  const size = `${events} events in ${groups} groups of ${chains} ${chains === 1 ? 'chain' : 'chains'}`
  const verdict = ok
    ? [`✓ The journal holds: ${size}. So do the ${rows} rows that decide (approvals, keys, pins).`]
    : [
        firstBad === undefined
          ? `✗ The journal holds (${size}), but ${badRows.length} of the ${rows} rows that decide do not.`
          : `✗ The journal does not hold (${size} were checked).`,
        ...badRows.map(({ row, reason }) => `  Row: ${cleanText(row)} ${cleanText(reason)}.`),
        ...(firstBad === undefined
          ? []
          : [
              `  First bad group: ${firstBad.group} of writer ${cleanText(firstBad.writer)}: ${cleanText(firstBad.reason)}.`,
            ]),
      ]
  return [...verdict, ...cannotSee.map((limit) => `  Not seen by this check: ${limit}.`)]
}
