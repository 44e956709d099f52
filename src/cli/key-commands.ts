import { z } from 'zod'
import { ToolError } from '#core/errors'
import type { JsonObject } from '#core/json'
import { type IssuedKey, type KeyActor, KeyDesk } from '#server/admin/keys'
import type { Arguments, OptionSpecs } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { EXIT } from './exit-codes.ts'
import type { JsonRequest } from './http-json.ts'
import { actAtStore, askAsOperator } from './operator-credential.ts'
import { STORE_OPTIONS, withStore } from './operator-store.ts'
import { UsageError } from './usage-error.ts'

export type KeyOption = 'store' | 'config' | 'url' | 'key'

/** How every command about keys is told where they are. */
export const KEY_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Ask this server instead of the store; so does --key.' },
  key: {
    value: 'K',
    help: 'API key with the scope admin:keys. Default: COLLET_API_KEY, else the start token of a server here.',
  },
} as const satisfies OptionSpecs

/** An issued key as both ways give it. */
export interface ShownKey {
  readonly tenant: string
  readonly principal: string
  readonly keyId: string
  readonly key: string
  readonly expiresAt: string | null
}

const WIRE_KEY = z.object({
  tenant: z.string(),
  principal: z.string(),
  key_id: z.string(),
  key: z.string(),
  expires_at: z.string().nullable(),
})

/** What only a server knows, which has its configuration. */
const UNKNOWN_HERE = { roles: undefined, findTool: undefined, isConfigured: undefined }

/** Works on the store of this machine, also while a server uses it: that one sees the change within a second. */
export async function onStore<T>(
  args: Arguments<KeyOption>,
  context: CommandContext,
  work: (desk: KeyDesk, actor: KeyActor) => Promise<T>,
  whose: (context: CommandContext) => string = actAtStore,
): Promise<T> {
  const actor = { id: whose(context), bounds: undefined }
  try {
    return await withStore(args, context, async (store) =>
      work(new KeyDesk({ store, clock: context.clock, ...UNKNOWN_HERE }), actor),
    )
  } catch (error) {
    if (error instanceof ToolError) throw new CommandFailure(EXIT.usage, error.message)
    throw error
  }
}

/** Asks the server that `--url` names. */
export async function askServer(
  request: Pick<JsonRequest, 'method' | 'body'> & { readonly path: string },
  args: Arguments<KeyOption>,
  context: CommandContext,
): Promise<JsonObject> {
  return await askAsOperator(request, args, context)
}

export function shownOf({ tenant, name, keyId, key, expiresAtMs }: IssuedKey): ShownKey {
  const expiresAt = expiresAtMs === undefined ? null : new Date(expiresAtMs).toISOString()
  return { tenant, principal: name, keyId, key: key.reveal(), expiresAt }
}

export function shownOfAnswer(answer: JsonObject): ShownKey {
  const parsed = WIRE_KEY.safeParse(answer)
  if (!parsed.success) throw new CommandFailure(EXIT.server, 'The server gave no key. Is it of this version?')
  const { key_id: keyId, expires_at: expiresAt, ...rest } = parsed.data
  return { ...rest, keyId, expiresAt }
}

/** The key alone on stdout, so that it can be caught; what it is on stderr. */
export function printKey(shown: ShownKey, { output, json }: CommandContext): void {
  if (json) {
    output.json(shown)
    return
  }
  const end = shown.expiresAt === null ? 'does not expire' : `expires ${shown.expiresAt}`
  output.note(`Key ${shown.keyId} of ${shown.principal} (tenant ${shown.tenant}) ${end}.`)
  output.note('It is shown this once and cannot be shown again.')
  output.data(shown.key)
}

export function nameOf(args: Arguments<string>): string {
  const [name] = args.positionals
  if (name !== undefined) return name
  throw new UsageError('Say which principal.')
}
