import { actAtStore, askAsOperator, asksServer, STORE_OPTIONS, withStore } from '#cli/admin-access'
import {
  type Arguments,
  type CommandContext,
  CommandFailure,
  defineCommand,
  EXIT,
  type OptionSpecs,
  UsageError,
} from '#cli/command'
import { readHidden } from '#cli/input'
import { renderTable } from '#cli/output'
import { loadProjectConfig } from '#cli/project'
import { toOAuthSettings } from '#config/to-settings'
import { isToolError } from '#core/errors'
import { isJsonObject, type JsonObject } from '#core/json'
import { NO_BROKER, SILENT_LOGGER, type TokenBroker } from '#core/runtime'
import { readSecretToSet, renderFacts, type SecretToSet } from '#server/admin/secrets'

/** How the commands of the vault find it: the store itself, or a server. */
const SECRETS_OPTIONS = {
  ...STORE_OPTIONS,
  url: { value: 'U', help: 'Ask this server instead; so does --key.' },
  key: {
    value: 'K',
    help: 'API key with the scope admin:secrets. Default: COLLET_API_KEY, else the start token of a server here.',
  },
} as const satisfies OptionSpecs

type SecretsOption = keyof typeof SECRETS_OPTIONS

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

export const secretsRemove = defineCommand<SecretsOption>({
  name: 'secrets rm',
  summary: 'Forgets a credential, and revokes a token at its provider if that is possible.',
  details: ['With --store alone no provider is known, so nothing is revoked there.'],
  positionals: [{ name: 'REF', help: 'The credential, as collet secrets list shows it.' }],
  options: SECRETS_OPTIONS,
  examples: ['collet secrets rm cred_m1Zb0kVtq2sXn4Rf8uYc3aLe'],
  async run(args, context) {
    const [ref = ''] = args.positionals
    const revoked = !asksServer(args)
      ? await removeInStore(ref, args, context)
      : await removeThroughServer(ref, args, context)
    if (context.json) context.output.json({ ref, revoked })
    else context.output.data(`${ref} is removed${revoked ? ', and revoked at its provider' : ''}.`)
    return EXIT.ok
  },
})

async function removeInStore(
  ref: string,
  args: Arguments<SecretsOption>,
  context: CommandContext,
): Promise<boolean> {
  const { removeCredential } = await import('#server/admin/secrets')
  const broker = await brokerOf(args, context)
  const removed = await withStore(args, context, (store) =>
    removeCredential(
      { store, broker },
      { ref, tenant: undefined, by: actAtStore(context), atMs: context.clock.nowMs() },
    ),
  )
  if (removed !== undefined) return removed.revoked
  throw new CommandFailure(
    EXIT.usage,
    'There is no credential with this reference. collet secrets list shows them.',
  )
}

async function brokerOf(args: Arguments<SecretsOption>, context: CommandContext): Promise<TokenBroker> {
  if (args.text('store') !== undefined && args.text('config') === undefined) return NO_BROKER
  const { config, file } = await loadProjectConfig(args.text('config'), context)
  const { createBroker } = await import('#server/services')
  const oauth = toOAuthSettings(config.oauth, [], file)
  const server = { ...config.server, publicUrl: config.server.publicUrl }
  return createBroker(
    { oauth, server },
    { fetch: context.services.fetch, clock: context.clock, log: SILENT_LOGGER },
  )
}

async function removeThroughServer(
  ref: string,
  args: Arguments<SecretsOption>,
  context: CommandContext,
): Promise<boolean> {
  const path = `/admin/secrets/${encodeURIComponent(ref)}`
  const { revoked } = await askAsOperator({ method: 'DELETE', path }, args, context)
  return revoked === true
}

type SetOption = 'principal' | 'user' | 'token' | 'scope' | 'tenant' | SecretsOption

export const secretsSet = defineCommand<SetOption>({
  name: 'secrets set',
  summary: 'Puts a secret or token into the vault; the value comes from stdin.',
  details: [
    'It is handed only to tools that declare NAME in their requirements, in calls of exactly this principal and user.',
    'A value that is there is replaced. Values never come out again, by no command.',
  ],
  positionals: [{ name: 'NAME', help: 'Id of the requirement: a secret, or with --token an authorization.' }],
  options: {
    principal: { value: 'P', required: true, help: 'Whose: key:<id>, or jwt:<issuer>#<sub>.' },
    user: { value: 'ID', help: 'For calls with this user id. Default: for calls without one.' },
    token: { help: 'NAME is an authorization, and the value its token.' },
    scope: { value: 'S', many: true, help: 'With --token: what the token may do.' },
    tenant: { value: 'T', help: 'Default: default.' },
    ...SECRETS_OPTIONS,
  },
  examples: [
    'collet secrets set TWILIO_API_KEY --principal key:alice < key.txt',
    'collet secrets set github --token --scope repo --principal key:alice --user u1',
  ],
  async run(args, context) {
    const body = readBody(args, await readHidden(context, 'Value'))
    const ref = !asksServer(args)
      ? await setInStore(body, args, context)
      : await setThroughServer(body, args, context)
    if (context.json) context.output.json({ ref })
    else context.output.data(ref)
    return EXIT.ok
  },
})

function readBody(args: Arguments<SetOption>, value: string): JsonObject {
  const [name = ''] = args.positionals
  const principal = args.text('principal')
  if (principal === undefined) throw new UsageError('Say whose it is: --principal key:<id>.')
  const isToken = args.flag('token')
  const scopes = args.texts('scope')
  if (scopes.length > 0 && !isToken) throw new UsageError('--scope goes only with --token.')
  const user = args.text('user')
  const tenant = args.text('tenant')
  return {
    name,
    principal,
    kind: isToken ? 'token' : 'secret',
    value,
    ...(scopes.length === 0 ? {} : { scopes: [...scopes] }),
    ...(user === undefined ? {} : { user_id: user }),
    ...(tenant === undefined ? {} : { tenant }),
  }
}

async function setInStore(
  body: JsonObject,
  args: Arguments<SetOption>,
  context: CommandContext,
): Promise<string> {
  const wanted = checked(() => readSecretToSet(body, undefined))
  const { setCredential } = await import('#server/admin/secrets')
  return await withStore(args, context, (store) =>
    setCredential(store, wanted, { by: actAtStore(context), atMs: context.clock.nowMs() }),
  )
}

function checked(read: () => SecretToSet): SecretToSet {
  try {
    return read()
  } catch (error) {
    if (isToolError(error)) throw new UsageError(error.message)
    throw error
  }
}

async function setThroughServer(
  body: JsonObject,
  args: Arguments<SetOption>,
  context: CommandContext,
): Promise<string> {
  const { ref } = await askAsOperator({ method: 'POST', path: '/admin/secrets', body }, args, context)
  if (typeof ref === 'string') return ref
  throw new CommandFailure(
    EXIT.server,
    'The server gave no reference. Is it a Collet server of this version?',
  )
}

export const vaultRotate = defineCommand<'store' | 'config'>({
  name: 'vault rotate',
  summary: 'Gives the vault of every tenant a new data key and seals everything anew.',
  details: [
    'Works while a server uses the store. The data keys stay wrapped by COLLET_KEY, which itself does not change.',
    'Consents that are under way in a browser have to begin again.',
  ],
  positionals: [],
  options: STORE_OPTIONS,
  examples: ['collet vault rotate'],
  async run(args, context) {
    const { output, json, clock, userName } = context
    const rotated = await withStore(
      args,
      context,
      async (store) => await store.vault.rotate(`cli:${userName}`, clock.nowMs()),
    )
    if (json) output.json(rotated)
    else output.data(`Sealed anew: ${rotated.entries} credentials of ${rotated.tenants} tenants.`)
    return EXIT.ok
  },
})
