import { z } from 'zod'
import { type CommandContext, defineCommand } from '#cli/command'
import { CommandFailure } from '#cli/command-failure'
import { EXIT } from '#cli/exit-codes'
import { askServer, KEY_OPTIONS, type KeyOption, onStore } from '#cli/key-commands'
import { asksServer, nameAtStore } from '#cli/operator-credential'
import { renderTable } from '#cli/table'
import { cleanText } from '#core/json'
import { renderKey } from '#server/admin/keys'

const MOST_LISTED = 1_000
const HEADINGS = [
  'KEY ID',
  'PRINCIPAL',
  'TENANT',
  'STATE',
  'EXPIRES',
  'LAST USED',
  'SCOPES',
  'LABEL',
] as const

/** As `GET /admin/keys` has them. */
const ROW = z.object({
  key_id: z.string(),
  tenant: z.string(),
  principal: z.string(),
  label: z.string().nullable(),
  scopes: z.array(z.string()).readonly(),
  roles: z.array(z.string()).readonly(),
  tools: z.array(z.string()).readonly().nullable(),
  created_at: z.string(),
  expires_at: z.string().nullable(),
  revoked_at: z.string().nullable(),
  last_used_at: z.string().nullable(),
})
type KeyRow = z.output<typeof ROW>

export const keysList = defineCommand<KeyOption>({
  name: 'keys list',
  summary: 'Lists the API keys of the store, newest first: everything about them but the keys.',
  details: ['When a key was last used is written about once a minute.'],
  positionals: [],
  options: KEY_OPTIONS,
  examples: ['collet keys list', 'collet keys list --json'],
  async run(args, context) {
    const rows = !asksServer(args)
      ? await onStore(
          args,
          context,
          async (desk, actor) => (await desk.list(actor, MOST_LISTED)).map(renderKey),
          nameAtStore,
        )
      : rowsOf(await askServer({ method: 'GET', path: '/admin/keys' }, args, context))
    print(rows, context)
    if (rows.length === MOST_LISTED)
      context.output.note(`These are the newest ${MOST_LISTED}; there may be more.`)
    return EXIT.ok
  },
})

function rowsOf(answer: unknown): readonly KeyRow[] {
  const parsed = z.object({ keys: z.array(ROW) }).safeParse(answer)
  if (parsed.success) return parsed.data.keys
  throw new CommandFailure(EXIT.server, 'The server gave no list of keys. Is it of this version?')
}

function print(rows: readonly KeyRow[], { output, json, clock }: CommandContext): void {
  if (json) output.json(rows)
  else if (rows.length === 0) output.note('There are no keys in this store.')
  else
    for (const line of renderTable(
      HEADINGS,
      rows.map((row) => cellsOf(row, clock.nowMs())),
    ))
      output.data(line)
}

function cellsOf(row: KeyRow, nowMs: number): readonly string[] {
  const rights = [...row.scopes, ...row.roles.map((role) => `role ${role}`)].join(' ')
  return [
    row.key_id,
    row.principal,
    row.tenant,
    stateOf(row, nowMs),
    row.expires_at ?? '',
    row.last_used_at ?? '',
    cleanText(row.tools === null ? rights : `${rights} (${row.tools.length} tools)`),
    cleanText(row.label ?? ''),
  ]
}

function stateOf({ revoked_at: revokedAt, expires_at: expiresAt }: KeyRow, nowMs: number): string {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && Date.parse(expiresAt) <= nowMs ? 'expired' : 'good'
}
