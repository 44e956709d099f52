import {
  CONNECT_PROVIDER,
  LIST_SECRETS,
  REMOVE_SECRET,
  SET_SECRET,
  type StoredCredential,
} from '#admin-api/secrets'
import { AdminClient, type AdminOption, adminOptions, isServerNamed, operatorName } from '#cli/admin-client'
import { type Arguments, type CommandContext, defineCommand, UsageError } from '#cli/command'
import { readHidden } from '#cli/input'
import { type Columns, listCommand, operatorCommand } from '#cli/operator-command'
import { counted } from '#cli/output'
import { configHere, STORE_OPTIONS, withStore } from '#cli/store-access'
import { defined } from '#kernel/base/json'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { type Principal, WHOLE_TENANT } from '#kernel/base/principal'
import { NO_BROKER, type TokenBroker } from '#kernel/base/token-broker'
import { createSecretsRoutes } from '#server/admin/secrets'
import { openCallerIn } from '#server/safety'
import type { Store } from '#store/collet-store'

/**
 * `collet secrets set|list|connect|rm` and `collet vault rotate`: credentials in the vault, on this machine or
 * through a server. Invariant: values are read from stdin and never printed.
 */

const SECRETS_OPTIONS = adminOptions('admin:secrets')

const secretsSet = operatorCommand({
  name: 'secrets set',
  summary: 'Stores a secret or token in the vault; the value is read from stdin.',
  details: [
    'It is given only to tools that declare NAME in their requirements, in calls by exactly this principal and user.',
    'A secret with --tenant and without --principal is for all callers in the tenant that have no secret of their own, in calls without a user id.',
    'An existing value is replaced. No command ever shows a value again.',
  ],
  positionals: [{ name: 'NAME', help: 'Id of the requirement: a secret, or with --token an authorization.' }],
  options: {
    principal: {
      value: 'P',
      help: 'Who it belongs to: key:<id> or jwt:<issuer>#<sub>. Default: the person at this machine, while the server has no keys.',
    },
    user: { value: 'ID', help: 'For calls with this user id. Default: for calls without one.' },
    token: { help: 'NAME is an authorization, and the value is its token.' },
    scope: { value: 'S', many: true, help: 'With --token: a scope that the token has.' },
    tenant: {
      value: 'T',
      help: 'Tenant of the principal. Default: default. Without --principal: for all callers in this tenant.',
    },
    ...SECRETS_OPTIONS,
  },
  examples: [
    'collet secrets set TWILIO_API_KEY < key.txt',
    'collet secrets set TWILIO_API_KEY --tenant team-a < key.txt',
    'collet secrets set TWILIO_API_KEY --principal key:alice < key.txt',
    'collet secrets set github --token --scope repo --principal key:alice --user u1',
  ],
  client: (args, context) => secretsClient(args, context),
  operation: SET_SECRET,
  async request(args, context) {
    const value = await readHidden(context, 'Value')
    const [name = ''] = args.positionals
    const scopes = args.texts('scope')
    if (scopes.length > 0 && !args.flag('token'))
      throw new UsageError('--scope can only be used with --token.')
    const [user, tenant] = [args.text('user'), args.text('tenant')]
    const principal = args.text('principal') ?? (tenant === undefined ? undefined : WHOLE_TENANT)
    return {
      body: {
        ...defined({ name, principal, value, user_id: user, tenant }),
        kind: args.flag('token') ? 'token' : 'secret',
        ...(scopes.length === 0 ? {} : { scopes }),
      },
    }
  },
  print: ({ ref }, { output }) => output.data(ref),
})

const COLUMNS: Columns<StoredCredential> = {
  REF: ({ ref }) => ref,
  KIND: ({ kind }) => kind,
  NAME: ({ name }) => name,
  TENANT: ({ tenant }) => tenant,
  PRINCIPAL: ({ principal }) => principal,
  USER: ({ user }) => user,
  SCOPES: ({ scopes }) => scopes.join(' ') || null,
  STATE: ({ state }) => state,
  EXPIRES_AT: ({ expires_at: at }) => at,
  UPDATED_AT: ({ updated_at: at }) => at,
}

const secretsList = listCommand({
  name: 'secrets list',
  summary: 'Lists the vault, newest entry first, without values.',
  details: ['A user is shown as a digest of the user id: the same user always has the same digest.'],
  options: SECRETS_OPTIONS,
  examples: ['collet secrets list', 'collet secrets list --json'],
  client: (args, context) => secretsClient(args, context),
  operation: LIST_SECRETS,
  rows: ({ secrets }) => secrets,
  columns: COLUMNS,
  empty: 'The vault is empty.',
})

const secretsRemove = operatorCommand({
  name: 'secrets rm',
  summary: 'Removes a credential, and revokes a token at its provider if possible.',
  details: ['With --store alone no provider is known, so nothing is revoked at providers.'],
  positionals: [
    {
      id: 'credential',
      name: 'REF',
      help: 'The ref that collet secrets list shows, or its first characters.',
    },
  ],
  options: SECRETS_OPTIONS,
  examples: ['collet secrets rm cred_m1Zb'],
  client: async (args, context) => secretsClient(args, context, await brokerOf(args, context)),
  operation: REMOVE_SECRET,
  print: ({ ref, revoked }, { output }) =>
    output.data(`${ref} is removed${revoked ? ', and revoked at its provider' : ''}.`),
})

const secretsConnect = operatorCommand({
  name: 'secrets connect',
  summary: 'Prints a link where a person grants a caller access at an OAuth provider.',
  details: [
    'No tool has to be called first: the token goes into the vault for every tool that needs it. The link works for ten minutes.',
    'The running server creates the link, because the provider redirects back to it.',
  ],
  positionals: [{ name: 'PROVIDER', help: 'The name of the provider under oauth.providers in the config.' }],
  options: {
    principal: { value: 'P', help: 'The caller that gets the access: key:<id> or jwt:<issuer>#<sub>.' },
    scope: {
      value: 'S',
      many: true,
      help: 'Scope to request. Default: the scopes that the tools need. May be repeated.',
    },
    tenant: { value: 'T', help: 'Tenant of that caller. Default: your own.' },
    ...SECRETS_OPTIONS,
  },
  examples: ['collet secrets connect github --principal key:agent'],
  client: (args, context) => new AdminClient(args, context),
  operation: CONNECT_PROVIDER,
  request(args) {
    const scopes = args.texts('scope')
    const terms = defined({ principal: args.text('principal'), tenant: args.text('tenant') })
    return { body: { ...terms, ...(scopes.length === 0 ? {} : { scopes }) } }
  },
  print: ({ url }, { output }) => output.data(url),
})

/** The OAuth providers of the config, where tokens can be revoked. */
async function brokerOf(args: Arguments<AdminOption>, context: CommandContext): Promise<TokenBroker> {
  const loaded = isServerNamed(args) ? undefined : await configHere(args, context)
  if (loaded === undefined) return NO_BROKER
  const { createBroker } = await import('#server/services')
  const { oauth, server } = loaded.config
  return createBroker(
    { oauth, server: { ...server, publicUrl: server.publicUrl } },
    { fetch: context.services.fetch, clock: context.clock, log: SILENT_LOGGER },
  )
}

const vaultRotate = defineCommand<'store' | 'config'>({
  name: 'vault rotate',
  summary: 'Gives the vault of every tenant a new data key, and encrypts everything again.',
  details: [
    'It works while a server uses the store. The data keys stay under COLLET_KEY; collet store rekey changes COLLET_KEY, and gives every vault a new data key too.',
    'Consents in progress in a browser have to be started again.',
  ],
  options: STORE_OPTIONS,
  examples: ['collet vault rotate'],
  async run(args, context) {
    const { output, json, clock } = context
    const by = operatorName(context)
    const rotated = await withStore(args, context, ({ vault }) => vault.rotate(by, clock.nowMs()))
    const [entries, tenants] = [counted(rotated.entries, 'credential'), counted(rotated.tenants, 'tenant')]
    if (json) output.json(rotated)
    else output.data(`Re-encrypted ${entries} of ${tenants}.`)
  },
})

function secretsClient(
  args: Arguments<AdminOption>,
  context: CommandContext,
  broker: TokenBroker = NO_BROKER,
): AdminClient {
  return new AdminClient(args, context, {
    onStore: ({ store, access }) =>
      createSecretsRoutes(access, {
        store,
        broker,
        clock: context.clock,
        openCaller: () => openCaller(store),
      }),
  })

  /** Without a config it is unknown whether callers need a credential. */
  async function openCaller({ keys }: Pick<Store, 'keys'>): Promise<Principal | undefined | 'unknown'> {
    const loaded = await configHere(args, context)
    if (loaded !== undefined) return await openCallerIn(loaded.config, keys)
    return (await keys.epoch()) > 0 ? undefined : 'unknown'
  }
}

export const COMMANDS = [secretsSet, secretsList, secretsConnect, secretsRemove, vaultRotate]
