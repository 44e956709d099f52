import { loadTools } from '#config/load-tools'
import { ApprovalDesk, type ApprovalDeskOptions, type Approver } from '#core/approvals/approvals'
import { isToolError } from '#core/errors'
import type { JsonObject } from '#core/json'
import type { Denial } from '#core/ports/key-store'
import { opaquePrincipal } from '#core/principal'
import type { Arguments, OptionSpecs } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { EXIT } from './exit-codes.ts'
import { loadProjectConfig } from './load-project.ts'
import { askAsOperator, asksServer, nameAtStore } from './operator-credential.ts'
import { STORE_OPTIONS, withStore } from './operator-store.ts'

/** How commands about approvals are told where: the store itself, or a server. */
export const APPROVAL_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Ask this server instead; so do --key and COLLET_API_KEY.' },
  key: {
    value: 'K',
    help: 'API key with the scope approvals:respond. Default: COLLET_API_KEY, else the start token of a server here.',
  },
} as const satisfies OptionSpecs

export type ApprovalOption = keyof typeof APPROVAL_OPTIONS

/**
 * A credential that was given is used: who decides matters more here than where. The store itself knows no callers, so
 * it is asked only without one, or where it is named.
 */
export function asksServerAboutApprovals(
  args: Arguments<'url' | 'key' | 'store'>,
  { environment }: CommandContext,
): boolean {
  return asksServer(args) || (environment.apiKey !== undefined && args.text('store') === undefined)
}

export async function withApprovals<T>(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
  work: (desk: ApprovalDesk, approver: Approver) => Promise<T>,
): Promise<T> {
  try {
    return await withStore(args, context, async (store) => {
      const { clock } = context
      const denials: Denial[] = []
      const onDenied: ApprovalDeskOptions['onDenied'] = (who, facts) => {
        const principal = opaquePrincipal(store, who)
        denials.push({ ...facts, atMs: clock.nowMs(), tenant: who.tenant, principal, count: 1 })
      }
      const definitionOf = await definitionsHere(args, context)
      try {
        return await work(new ApprovalDesk({ store, clock, onDenied, definitionOf }), {
          id: nameAtStore(context),
          tenant: undefined,
          scopes: ['*'],
        })
      } finally {
        if (denials.length > 0) await store.audit.recordDenials(denials)
      }
    })
  } catch (error) {
    if (isToolError(error)) throw new CommandFailure(EXIT.usage, error.message)
    throw error
  }
}

/** The definitions of the config here; a store that was named alone says nothing of tools, nor does a config with faults. */
async function definitionsHere(
  args: Arguments<'store' | 'config'>,
  context: CommandContext,
): Promise<(tool: string) => string | undefined> {
  if (args.text('store') !== undefined && args.text('config') === undefined) return () => undefined
  const { tools } = await loadTools(await loadProjectConfig(args.text('config'), context))
  const hashes = new Map(tools.map(({ id, definitionHash }) => [id, definitionHash]))
  return (tool) => hashes.get(tool)
}

export async function askAboutApprovals(
  request: { readonly method: 'GET' | 'POST'; readonly path: string; readonly body?: JsonObject },
  args: Arguments<'url' | 'key' | 'store' | 'config'>,
  context: CommandContext,
): Promise<JsonObject> {
  return await askAsOperator({ ...request, path: `/admin/approvals${request.path}` }, args, context)
}

export function noCollet(args: Arguments<'url'>): CommandFailure {
  const url = args.text('url') ?? 'The server'
  return new CommandFailure(EXIT.server, `${url} gave no approvals. Is it a Collet server of this version?`)
}
