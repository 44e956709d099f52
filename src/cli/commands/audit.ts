import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import { type Arguments, type Command, type CommandContext, defineCommand, EXIT } from '#cli/command'
import { renderTable } from '#cli/output'
import { isStoreAlone, loadProjectConfig } from '#cli/store-access'
import { cleanText } from '#core/json'
import type { KeyOwner } from '#core/ports/key-store'
import { createAuditRoutes, type RenderedDenial } from '#server/admin/audit'

const DEFAULT_LIMIT = 100
const MOST_SHOWN = 10_000
const PAGE = 1_000

const HEADINGS = ['AT', 'TENANT', 'PRINCIPAL', 'WANTED', 'WHAT', 'WHY', 'TIMES'] as const

const audit = defineCommand<'principal' | 'since' | 'limit' | AdminOption>({
  name: 'audit',
  summary: 'Shows who was refused what: calls of tools that are not theirs, approvals and administration.',
  details: [
    'Reads the store directly, even while a server uses it; with --url it asks the server.',
    'The log has no names in it. Whoever has a key, and whoever has called lately, is shown by name to those who may manage keys; others as prn_…, which --principal finds by their name.',
    'What one caller is refused again within the same minute is counted, and is one more line.',
  ],
  positionals: [],
  options: {
    principal: { value: 'P', help: 'Only of this one: key:alice, jwt:<issuer>#<sub> or prn_….' },
    since: {
      value: 'TIME',
      help: 'Only since then: 2026-01-31, 2026-01-31T10:00:00Z, or ago: 30m, 12h, 7d.',
    },
    limit: { value: 'N', help: `Show the newest N. Default ${DEFAULT_LIMIT}.` },
    ...adminOptions('audit:read, and admin:keys for names'),
  },
  examples: ['collet audit --since 7d', 'collet audit --principal key:alice --json'],
  async run(args, context) {
    const { output, json, clock } = context
    const limit = args.integer('limit', { least: 1, most: MOST_SHOWN }) ?? DEFAULT_LIMIT
    const [principal, since] = [args.text('principal'), args.moment('since', clock.nowMs())]
    const filter = {
      ...(principal === undefined ? {} : { principal }),
      ...(since === undefined ? {} : { since: since.toISOString() }),
    }
    const found = await output.during(
      'Reading the audit log',
      readNewest(filter, limit, clientOf(args, context)),
    )
    if (json) output.json(found)
    else if (found.length === 0) output.note('Nobody was refused anything.')
    else for (const line of renderTable(HEADINGS, found.map(cellsOf))) output.data(line)
    return EXIT.ok
  },
})

interface AuditPage {
  readonly events: readonly RenderedDenial[]
  readonly next: number
}

/** The log is read from its beginning, page by page; what is older than the newest is let go. */
async function readNewest(
  filter: Readonly<Record<string, string>>,
  limit: number,
  client: AdminClient,
): Promise<readonly RenderedDenial[]> {
  let newest: readonly RenderedDenial[] = []
  for (let after = 0; ; ) {
    const query = new URLSearchParams({ ...filter, after: String(after), limit: String(PAGE) })
    const page = await client.request<AuditPage>({ method: 'GET', path: `/admin/audit?${query}` }, 'events')
    newest = [...newest, ...page.events].slice(-limit)
    // Where it goes on is where it was: there is no more.
    if (page.next <= after) return newest
    after = page.next
  }
}

function cellsOf(denial: RenderedDenial): readonly string[] {
  const { at, tenant, principal, principal_id: id, action, resource, reason, count } = denial
  return [at, tenant, cleanText(id ?? principal), action, cleanText(resource), reason, String(count)]
}

function clientOf(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  return new AdminClient(args, context, {
    onStore: async ({ store, access }) => {
      const owners = await configuredOwners(args, context)
      return createAuditRoutes({ store, configured: () => owners }, access)
    },
  })
}

/** Whose keys the config has; with a store alone nothing is known of it. */
async function configuredOwners(
  args: Arguments<AdminOption>,
  context: CommandContext,
): Promise<readonly KeyOwner[]> {
  if (isStoreAlone(args)) return []
  const { auth } = (await loadProjectConfig(args.text('config'), context)).config
  return auth.apiKeys.map(({ tenant, id }) => ({ tenant, name: id }))
}

export const COMMANDS: readonly Command[] = [audit]
