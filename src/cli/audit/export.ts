import { open, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { EXPORT_FORMATS, EXPORTS, type Exported } from '#admin-api/exports'
import { EXPORT_RECEIPTS } from '#admin-api/receipts'
import { AdminClient, type AdminOption, adminOptions } from '#cli/admin-client'
import { type Arguments, type CommandContext, defineCommand, UsageError } from '#cli/command'
import { configHere } from '#cli/store-access'
import { loadTools } from '#config/load-tools'
import { createExportRoutes } from '#server/audit/export-routes'
import { createReceiptRoutes } from '#server/audit/receipt-routes'

/**
 * `collet export`: writes the journal, calls, usage, approvals or denials as CSV or JSON lines, to stdout or to a file. It
 * uses the routes of the admin API, so its rows are those of the same filter there. Invariant: an incomplete file is
 * removed, so that a file is never mistaken for a whole export.
 */

/** Options that filter some exports only. */
const FILTERS = {
  journal: ['person', 'action', 'object', 'tenant'],
  calls: ['tool', 'principal', 'state', 'tenant'],
  usage: ['tenant'],
  approvals: ['state'],
  denials: ['principal'],
  receipts: ['tool', 'principal', 'state', 'tenant'],
} as const satisfies Record<Kind, readonly FilterOption[]>

/** Stands in for the address of a server in receipts that are made without one. */
export const NO_SERVER = 'a store without a server'

type FilterOption = 'person' | 'action' | 'object' | 'tenant' | 'tool' | 'principal' | 'state'
type ExportOption = FilterOption | 'format' | 'since' | 'until' | 'out' | AdminOption

const ALL_FILTERS = ['person', 'action', 'object', 'tenant', 'tool', 'principal', 'state'] as const
const KINDS = ['journal', 'calls', 'usage', 'approvals', 'denials', 'receipts'] as const
type Kind = Exported | 'receipts'
const OPERATIONS = { ...EXPORTS, receipts: EXPORT_RECEIPTS } satisfies Record<Kind, unknown>

const exportRows = defineCommand<ExportOption>({
  name: 'export',
  summary:
    'Exports the journal, calls, usage, approvals or denials as CSV or JSON lines, or receipts of calls.',
  details: [
    'Inputs and outcomes of calls are not exported.',
    'receipts: signed proofs of calls in one file, for collet verify.',
    'Cells that a spreadsheet would run as a formula begin with an apostrophe in CSV. JSON lines contain every value unchanged.',
    'The export is recorded in the journal, with its filter. Reads the store directly, even while a server uses it; with --url it asks the server.',
  ],
  positionals: [{ name: 'WHAT', help: 'journal, calls, usage, approvals, denials or receipts.' }],
  options: {
    format: { value: 'F', help: 'csv or jsonl. Default: csv; with --json: jsonl.' },
    since: {
      value: 'TIME',
      help: 'Only rows from this time on: 2026-01-31, 2026-01-31T10:00:00Z, or an age: 30m, 12h, 7d.',
    },
    until: { value: 'TIME', help: 'Only rows before this time.' },
    person: {
      value: 'P',
      help: 'journal: only events in which P acted or which concern P, such as key:alice.',
    },
    action: {
      value: 'TYPE',
      help: 'journal: only events of this type, or of several separated by commas; approval stands for every approval.… event.',
    },
    object: { value: 'TEXT', help: 'journal: only events about an object whose name or id contains TEXT.' },
    tool: { value: 'NAME', help: 'calls, receipts: only calls to this tool, as in collet calls.' },
    principal: { value: 'P', help: 'calls, receipts, denials: only those of this principal.' },
    state: { value: 'S', help: 'calls, receipts, approvals: only those in this state.' },
    tenant: { value: 'T', help: 'journal, calls, receipts, usage: only this tenant.' },
    out: { value: 'FILE', help: 'Write to this file instead of stdout.' },
    ...adminOptions('audit:read, admin:calls or approvals:read'),
  },
  examples: [
    'collet export journal --since 30d --out journal.csv',
    'collet export calls --state error --since 7d --format jsonl',
    'collet export approvals --since 2026-01-01 --out approvals.csv',
    'collet export receipts --tool Bank.Pay --since 30d --out receipts.jsonl',
  ],
  async run(args, context) {
    const [typed = ''] = args.positionals
    const what = KINDS.find((kind) => kind === typed)
    if (what === undefined) throw new UsageError(`collet export expects ${KINDS.join(', ')}; got "${typed}".`)
    const query = readQuery(what, args, context)
    const stop = new AbortController()
    const endListening = context.onStop(() => stop.abort(new Error('stopped')))
    try {
      await writeText(args.text('out'), context, (onPiece) =>
        exportClient(args, context).download(OPERATIONS[what], { query }, stop.signal, async (piece) => {
          stop.signal.throwIfAborted()
          await onPiece(piece)
        }),
      )
    } finally {
      endListening()
    }
  },
})

function readQuery(what: Kind, args: Arguments<ExportOption>, { clock, json }: CommandContext) {
  const known: readonly FilterOption[] = FILTERS[what]
  const stray = ALL_FILTERS.find((name) => args.text(name) !== undefined && !known.includes(name))
  if (stray !== undefined) {
    const offered = [...known, 'since', 'until'].map((name) => `--${name}`).join(', ')
    throw new UsageError(`--${stray} does not filter ${what}. Filters of ${what}: ${offered}.`)
  }
  return {
    ...Object.fromEntries(known.map((name) => [name, args.text(name)])),
    format: args.oneOf('format', EXPORT_FORMATS) ?? (json ? 'jsonl' : 'csv'),
    since: args.moment('since', clock.nowMs())?.toISOString(),
    until: args.moment('until', clock.nowMs())?.toISOString(),
  }
}

/** Passes `work` a function that writes text to the file, or to stdout without a file. */
export async function writeText(
  name: string | undefined,
  { stdout, output, workingFolder }: CommandContext,
  work: (onPiece: (text: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  if (name === undefined) {
    return await work(async (text) => {
      stdout.write(text)
    })
  }
  const path = resolve(workingFolder, name)
  const file = await open(path, 'w', 0o600)
  try {
    await output.during(
      `Writing ${name}`,
      work(async (text) => file.writeFile(text)),
    )
  } catch (error) {
    await rm(path, { force: true })
    throw error
  } finally {
    await file.close()
  }
}

function exportClient(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  return new AdminClient(args, context, {
    async onStore({ store, access }) {
      const loaded = await configHere(args, context)
      const tools = loaded === undefined ? [] : (await loadTools(loaded)).tools
      const costs = new Map(tools.map(({ id, policy }) => [id, policy.cost]))
      const owners = (loaded?.config.auth.apiKeys ?? []).map(({ tenant, id }) => ({ tenant, name: id }))
      const { clock } = context
      const enter = () => () => undefined
      return [
        ...createExportRoutes(access, {
          ...{ store, clock, enter, configured: () => owners },
          costOf: (tool) => costs.get(tool),
        }),
        ...createReceiptRoutes(access, { store, clock, enter, publicUrl: () => NO_SERVER }),
      ]
    },
  })
}

export const COMMANDS = [exportRows]
