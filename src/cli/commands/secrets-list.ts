import type { Arguments } from '#cli/arguments'
import { type CommandContext, defineCommand } from '#cli/command'
import { CommandFailure } from '#cli/command-failure'
import { EXIT } from '#cli/exit-codes'
import { askAsOperator, asksServer } from '#cli/operator-credential'
import { withStore } from '#cli/operator-store'
import { SECRETS_OPTIONS, type SecretsOption } from '#cli/secrets-options'
import { renderTable } from '#cli/table'
import { isJsonObject, type JsonObject } from '#core/json'
import { renderFacts } from '#server/admin/secrets'

const MOST_LISTED = 1_000
const COLUMNS = [
  'ref',
  'kind',
  'name',
  'tenant',
  'principal',
  'user',
  'scopes',
  'state',
  'expires_at',
  'updated_at',
] as const

export const secretsList = defineCommand<SecretsOption>({
  name: 'secrets list',
  summary: 'Lists what is in the vault, newest first, without values.',
  details: ['A user is shown as a digest of its id: the same user, the same text.'],
  positionals: [],
  options: SECRETS_OPTIONS,
  examples: ['collet secrets list', 'collet secrets list --json'],
  async run(args, context) {
    const { output, json } = context
    const rows = !asksServer(args)
      ? await withStore(args, context, async (store) =>
          (await store.vault.list({ limit: MOST_LISTED })).map(renderFacts),
        )
      : await askServer(args, context)
    if (json) output.json(rows)
    else if (rows.length === 0) output.note('The vault is empty.')
    else
      for (const line of renderTable(
        COLUMNS.map((name) => name.toUpperCase()),
        rows.map(cellsOf),
      ))
        output.data(line)
    return EXIT.ok
  },
})

function cellsOf(row: JsonObject): readonly string[] {
  return COLUMNS.map((name) => {
    const value = row[name]
    if (value === null || value === undefined) return '-'
    return Array.isArray(value) ? value.join(' ') || '-' : String(value)
  })
}

async function askServer(
  args: Arguments<SecretsOption>,
  context: CommandContext,
): Promise<readonly JsonObject[]> {
  const { secrets } = await askAsOperator({ method: 'GET', path: '/admin/secrets' }, args, context)
  if (Array.isArray(secrets)) return secrets.filter(isJsonObject)
  throw new CommandFailure(EXIT.server, 'The server gave no list. Is it a Collet server of this version?')
}
