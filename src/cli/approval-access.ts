import { ApprovalDesk, type ApprovalDeskOptions, type Approver } from '#core/approvals/approval-desk'
import { isToolError } from '#core/errors'
import type { JsonObject } from '#core/json'
import { opaquePrincipal } from '#core/opaque-principal'
import type { Denial } from '#core/ports/audit-store'
import type { Arguments, OptionSpecs } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { EXIT } from './exit-codes.ts'
import { requestJson } from './http-json.ts'
import { operatorCredential } from './operator-credential.ts'
import { STORE_OPTIONS, withStore } from './operator-store.ts'
import { readServerAddress } from './server-address.ts'

/** How commands about approvals are told where: the store itself, or a server. */
export const APPROVAL_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Ask this server instead.' },
  key: {
    value: 'K',
    help: 'API key with the scope approvals:respond. Default: the start token of a server here.',
  },
} as const satisfies OptionSpecs

export type ApprovalOption = keyof typeof APPROVAL_OPTIONS

/** Whoever can open the store with its key may decide about everything in it. */
function approverAt({ userName }: CommandContext): Approver {
  return { id: `cli:${userName}`, tenant: undefined, scopes: ['*'] }
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
      try {
        return await work(new ApprovalDesk({ store, clock, onDenied }), approverAt(context))
      } finally {
        if (denials.length > 0) await store.audit.recordDenials(denials)
      }
    })
  } catch (error) {
    if (isToolError(error)) throw new CommandFailure(EXIT.usage, error.message)
    throw error
  }
}

export async function askAboutApprovals(
  request: { readonly method: 'GET' | 'POST'; readonly path: string; readonly body?: JsonObject },
  args: Arguments<'url' | 'key' | 'store' | 'config'>,
  context: CommandContext,
): Promise<JsonObject> {
  const { url } = readServerAddress(args, context)
  const credential = await operatorCredential(url, args, context)
  const { path, ...rest } = request
  return await requestJson(
    { ...rest, url: `${url}/admin/approvals${path}`, credential },
    context.services.fetch,
  )
}

export function noCollet(args: Arguments<'url'>): CommandFailure {
  const url = args.text('url') ?? 'The server'
  return new CommandFailure(EXIT.server, `${url} gave no approvals. Is it a Collet server of this version?`)
}
