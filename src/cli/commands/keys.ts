import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import {
  actAtStore,
  askAsOperator,
  asksServer,
  type JsonRequest,
  nameAtStore,
  STORE_OPTIONS,
  withStore,
} from '#cli/admin-access'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  type OptionSpecs,
  UsageError,
} from '#cli/command'
import { readEnd, readSpanMs } from '#cli/input'
import { renderTable } from '#cli/output'
import { ToolError } from '#core/errors'
import { cleanText, type JsonObject } from '#core/json'
import { DEFAULT_TENANT } from '#core/principal'
import { ApiKeys, type IssuedKey, type KeyActor, renderKey } from '#server/admin/keys'

type KeyOption = 'store' | 'config' | 'url' | 'key'

/** How every command about keys is told where they are. */
const KEY_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Ask this server instead of the store; so does --key.' },
  key: {
    value: 'K',
    help: 'API key with the scope admin:keys. Default: COLLET_API_KEY, else the start token of a server here.',
  },
} as const satisfies OptionSpecs

/** An issued key as both ways give it. */
interface ShownKey {
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
async function onStore<T>(
  args: Arguments<KeyOption>,
  context: CommandContext,
  work: (apiKeys: ApiKeys, actor: KeyActor) => Promise<T>,
  whose: (context: CommandContext) => string = actAtStore,
): Promise<T> {
  const actor = { id: whose(context), bounds: undefined }
  try {
    return await withStore(args, context, async (store) =>
      work(new ApiKeys({ store, clock: context.clock, ...UNKNOWN_HERE }), actor),
    )
  } catch (error) {
    if (error instanceof ToolError) throw new CommandFailure(EXIT.usage, error.message)
    throw error
  }
}

/** Asks the server that `--url` names. */
async function askServer(
  request: Pick<JsonRequest, 'method' | 'body'> & { readonly path: string },
  args: Arguments<KeyOption>,
  context: CommandContext,
): Promise<JsonObject> {
  return await askAsOperator(request, args, context)
}

function shownOf({ tenant, name, keyId, key, expiresAtMs }: IssuedKey): ShownKey {
  const expiresAt = expiresAtMs === undefined ? null : new Date(expiresAtMs).toISOString()
  return { tenant, principal: name, keyId, key: key.reveal(), expiresAt }
}

function shownOfAnswer(answer: JsonObject): ShownKey {
  const parsed = WIRE_KEY.safeParse(answer)
  if (!parsed.success) throw new CommandFailure(EXIT.server, 'The server gave no key. Is it of this version?')
  const { key_id: keyId, expires_at: expiresAt, ...rest } = parsed.data
  return { ...rest, keyId, expiresAt }
}

/** The key alone on stdout, so that it can be caught; what it is on stderr. */
function printKey(shown: ShownKey, { output, json }: CommandContext): void {
  if (json) {
    output.json(shown)
    return
  }
  const end = shown.expiresAt === null ? 'does not expire' : `expires ${shown.expiresAt}`
  output.note(`Key ${shown.keyId} of ${shown.principal} (tenant ${shown.tenant}) ${end}.`)
  output.note('It is shown this once and cannot be shown again.')
  output.data(shown.key)
}

function nameOf(args: Arguments<string>): string {
  const [name] = args.positionals
  if (name !== undefined) return name
  throw new UsageError('Say which principal.')
}

type CreateOption = KeyOption | 'tenant' | 'scope' | 'role' | 'tool' | 'label' | 'expires'

export const keysCreate = defineCommand<CreateOption>({
  name: 'keys create',
  summary: 'Makes a principal with its first API key, and shows the key once.',
  details: [
    'From the first key on every caller of the server needs a credential. No principal can be made twice, not even after it ended.',
    'Without --tool the key sees every tool that its scopes and roles open.',
  ],
  positionals: [{ name: 'PRINCIPAL', help: 'Whom the key belongs to; it acts as key:PRINCIPAL.' }],
  options: {
    scope: { value: 'S', many: true, help: 'A scope it holds, such as mail:read or mail:*.' },
    role: { value: 'R', many: true, help: 'A role of auth.roles it holds.' },
    tool: { value: 'NAME', many: true, help: 'Let it see only these tools, by any of their names.' },
    tenant: { value: 'T', help: 'Tenant it belongs to. Default: default.' },
    label: { value: 'TEXT', help: 'What it is for.' },
    expires: { value: 'WHEN', help: 'When it ends: 90d, or 2027-01-31T00:00:00Z. Default: never.' },
    ...KEY_OPTIONS,
  },
  examples: [
    'collet keys create ci --scope mail:read --expires 90d',
    'collet keys create alice --role viewer --tool openwop:Mail.Send --label "laptop"',
  ],
  async run(args, context) {
    const body = bodyOf(args, context.clock.nowMs())
    const shown = !asksServer(args)
      ? shownOf(await onStore(args, context, (apiKeys, actor) => apiKeys.create(body, actor)))
      : shownOfAnswer(await askServer({ method: 'POST', path: '/admin/keys', body }, args, context))
    printKey(shown, context)
    return EXIT.ok
  },
})

function bodyOf(args: Arguments<CreateOption>, nowMs: number): JsonObject {
  const tools = args.texts('tool')
  const tenant = args.text('tenant')
  const label = args.text('label')
  const expires = args.text('expires')
  return {
    principal: nameOf(args),
    scopes: [...args.texts('scope')],
    roles: [...args.texts('role')],
    ...(tools.length === 0 ? {} : { tools: [...tools] }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(label === undefined ? {} : { label }),
    ...(expires === undefined ? {} : { expires_at: readEnd('expires', expires, nowMs) }),
  }
}

const KEY_BYTES = 32

export const keysGenerate = defineCommand<never>({
  name: 'keys generate',
  summary: 'Prints a new random key of 32 bytes, for auth.apiKeys, auth.jwt.secret or COLLET_KEY.',
  positionals: [],
  options: {},
  examples: ['collet keys generate', 'export COLLET_KEY="$(collet keys generate)"'],
  async run(_, { output, json }) {
    // OTC-103. Base64 and not its URL form: a key that begins with "-" would read as an option.
    const key = randomBytes(KEY_BYTES).toString('base64')
    if (json) output.json({ key })
    else output.data(key)
    return EXIT.ok
  },
})

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
          async (apiKeys, actor) => (await apiKeys.list(actor, MOST_LISTED)).map(renderKey),
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

type RevokeOption = KeyOption | 'principal' | 'tenant'

export const keysRevoke = defineCommand<RevokeOption>({
  name: 'keys revoke',
  summary: 'Ends an API key, or a principal with all its keys; servers see it within a second.',
  details: ['A principal that was ended never comes back: its name cannot be used again.'],
  positionals: [{ name: 'KEY-ID', optional: true, help: 'The key, as collet keys list shows it.' }],
  options: {
    principal: { value: 'P', help: 'End this principal instead of one key.' },
    tenant: { value: 'T', help: 'Tenant of that principal. Default: default.' },
    ...KEY_OPTIONS,
  },
  examples: ['collet keys revoke 5f0c9d2e4b1aa07c3e8d9f21', 'collet keys revoke --principal ci'],
  async run(args, context) {
    const [keyId] = args.positionals
    const name = args.text('principal')
    if ((keyId === undefined) === (name === undefined))
      throw new UsageError('Say one key by its id, or one principal with --principal.')
    const tenant = args.text('tenant') ?? DEFAULT_TENANT
    const path =
      name === undefined
        ? `/admin/keys/${encodeURIComponent(keyId ?? '')}`
        : `/admin/principals/${encodeURIComponent(name)}?${new URLSearchParams({ tenant })}`
    if (asksServer(args)) await askServer({ method: 'DELETE', path }, args, context)
    else
      await onStore(args, context, (apiKeys, actor) =>
        name === undefined
          ? apiKeys.revoke(keyId ?? '', actor)
          : apiKeys.endPrincipal({ tenant, name }, actor),
      )
    if (context.json)
      context.output.json(
        name === undefined ? { keyId, revoked: true } : { tenant, principal: name, ended: true },
      )
    else
      context.output.data(
        name === undefined ? `${keyId} is revoked.` : `${name} is ended, with all its keys.`,
      )
    return EXIT.ok
  },
})

type RotateOption = KeyOption | 'tenant' | 'old-ends' | 'label' | 'expires'

export const keysRotate = defineCommand<RotateOption>({
  name: 'keys rotate',
  summary: 'Gives a principal one more API key with the same rights, and shows it once.',
  details: ['The keys it has stay good, unless --old-ends says when they end.'],
  positionals: [{ name: 'PRINCIPAL', help: 'Whose key.' }],
  options: {
    'old-ends': { value: 'SPAN', help: 'End the other keys after this time, such as 24h; 0s = now.' },
    tenant: { value: 'T', help: 'Tenant of the principal. Default: default.' },
    label: { value: 'TEXT', help: 'What the new key is for.' },
    expires: { value: 'WHEN', help: 'When the new key ends: 90d, or 2027-01-31T00:00:00Z. Default: never.' },
    ...KEY_OPTIONS,
  },
  examples: ['collet keys rotate ci --old-ends 24h'],
  async run(args, context) {
    const name = nameOf(args)
    const body = bodyOfInKeysRotate(args, context.clock.nowMs())
    const path = `/admin/principals/${encodeURIComponent(name)}/keys`
    const shown = !asksServer(args)
      ? shownOf(await onStore(args, context, (apiKeys, actor) => apiKeys.rotate(name, body, actor)))
      : shownOfAnswer(await askServer({ method: 'POST', path, body }, args, context))
    printKey(shown, context)
    return EXIT.ok
  },
})

function bodyOfInKeysRotate(args: Arguments<RotateOption>, nowMs: number): JsonObject {
  const tenant = args.text('tenant')
  const label = args.text('label')
  const expires = args.text('expires')
  const oldEnds = args.text('old-ends')
  return {
    ...(tenant === undefined ? {} : { tenant }),
    ...(label === undefined ? {} : { label }),
    ...(expires === undefined ? {} : { expires_at: readEnd('expires', expires, nowMs) }),
    ...(oldEnds === undefined ? {} : { old_ends_in_seconds: readSpanMs('old-ends', oldEnds) / 1_000 }),
  }
}
