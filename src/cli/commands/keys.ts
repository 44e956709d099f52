import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import {
  type ApiKey,
  CREATE_KEY,
  END_PRINCIPAL,
  LIST_KEYS,
  type NewKey,
  REVOKE_KEY,
  ROTATE_KEY,
} from '#admin-api/keys'
import { AdminClient, type AdminOption, adminOptions, isServerNamed } from '#cli/admin-client'
import {
  type Arguments,
  type Command,
  type CommandContext,
  type CommandFailure,
  defineCommand,
  EXIT,
  type ExitCode,
  UsageError,
} from '#cli/command'
import { listCommand, operatorCommand } from '#cli/operator-command'
import { counted, type Output } from '#cli/output'
import { configHere, ensureStore, lacksConfig } from '#cli/store-access'
import { loadTools } from '#config/load-tools'
import { toApprovalRules } from '#config/schema-policies'
import { isImported } from '#config/to-settings'
import { cleanText, defined, isJsonObject, type JsonObject, parseJson } from '#kernel/base/json'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import { approverScopes, type KnownGrants } from '#server/admin/key-grants'
import { createKeyRoutes, type KeyRoutesOptions, newKeyProblem } from '#server/admin/keys'
import { findKnownTools, scopesOf } from '#server/known-tools'
import { needsCredential } from '#server/safety'
import type { Store } from '#store/collet-store'

/**
 * `collet keys create|rotate|list|revoke|generate`: API keys in the store, on this machine or through a server.
 * Invariant: a key is printed exactly once, alone on stdout, and is never stored in plain text.
 */

const KEY_OPTIONS = adminOptions('admin:keys')

const keysCreate = defineCommand({
  name: 'keys create',
  summary: 'Creates a principal with its first API key, and shows the key once.',
  details: [
    'It creates the database file, or on PostgreSQL the tables, if there are none, so that a server can have its keys before its first start.',
    'Once there is a key, every caller of the server needs a credential. A principal cannot be created twice, not even after it was ended.',
    '--from creates many at once from a JSON list of objects with principal and, if wanted, tenant, scopes, roles, tools, toolsets, label and expires_at. Options apply to entries that do not set the same member. Each line has tenant, principal and key; with --json it is an object.',
    'Without --tool and --toolset the key sees every tool that its scopes and roles allow; with them, only the named ones among these.',
  ],
  positionals: [
    { name: 'PRINCIPAL', optional: true, help: 'Who the key belongs to; it acts as key:PRINCIPAL.' },
  ],
  options: {
    from: { value: 'FILE', help: 'Create a principal with its key for each entry of this JSON file.' },
    init: { help: 'Create a config and a database in this folder if it has none.' },
    scope: { value: 'S', many: true, help: 'A scope for the key, such as mail:read or mail:*.' },
    role: { value: 'R', many: true, help: 'A role from auth.roles for the key.' },
    toolset: { value: 'T', many: true, help: 'Let it see only the tools of this toolset of the config.' },
    tool: {
      value: 'NAME',
      many: true,
      help: "Let it see only these tools: any of their names, or a pattern in quotes such as 'Mail.*'.",
    },
    tenant: { value: 'T', help: 'Tenant it belongs to. Default: default.' },
    label: { value: 'TEXT', help: 'Purpose of the key, for lists.' },
    expires: { value: 'WHEN', help: 'When it expires: 90d, or 2027-01-31T00:00:00Z. Default: never.' },
    ...KEY_OPTIONS,
  },
  examples: [
    'collet keys create ci --scope mail:read --expires 90d',
    `collet keys create team-crm --toolset crm --scope 'crm:*'`,
    `collet keys create alice --role viewer --tool 'Mail.*' --label "laptop"`,
    'collet keys create --from teams.json --expires 90d > keys.txt',
  ],
  async run(args, context) {
    const [principal] = args.positionals
    const file = args.text('from')
    if ((principal === undefined) === (file === undefined))
      throw new UsageError('Name one principal, or a file of principals with --from.')
    const [tools, toolsets] = [args.texts('tool'), args.texts('toolset')]
    const terms = {
      scopes: args.texts('scope'),
      roles: args.texts('role'),
      ...(tools.length === 0 ? {} : { tools }),
      ...(toolsets.length === 0 ? {} : { toolsets }),
      ...keyTerms(args, context),
    }
    const entries = file === undefined ? undefined : await readEntries(file, context)
    const body = { ...terms, principal: principal ?? '' }
    // The name is checked first, so that a refused name creates nothing.
    const problem = entries === undefined ? newKeyProblem(body, context.clock.nowMs()) : undefined
    if (problem !== undefined) throw new UsageError(problem)
    if (!isServerNamed(args)) {
      if (lacksConfig(args, context) && !args.flag('init')) throw new UsageError(NO_SERVER_HERE)
      // This is often the first command in a folder: a server should have its keys before it listens.
      await ensureStore(args, context)
    }
    if (file !== undefined && entries !== undefined)
      return await issueKeys({ file, entries }, terms, args, context)
    const issued = await keyClient(args, context).ask(CREATE_KEY, { body })
    if (context.json) context.output.json(issued)
    else printKey(issued, context.output)
    for (const warning of issued.warnings) context.output.warn(cleanText(warning))
  },
})

const NO_SERVER_HERE =
  'There is no server here: this folder has no config, so no server would know the key. Run this in the folder of your config, name it with --config or --store, or ask a running server with --url. --init creates a config and a database here.'

/**
 * Creates a key for each entry of a file. Each is printed as soon as it is created, because no key can be shown
 * again.
 */
async function issueKeys(
  { file, entries }: { readonly file: string; readonly entries: readonly JsonObject[] },
  terms: JsonObject,
  args: Arguments<AdminOption>,
  context: CommandContext,
): Promise<ExitCode> {
  const { output, json } = context
  const requests = entries.map((entry) => ({ body: { ...terms, ...entry } }))
  let [attempted, refused] = [0, 0]
  const nameOf = (index: number): string => `entry ${index + 1} (${entries[index]?.principal})`
  const take = (issued: NewKey | CommandFailure, index: number): void => {
    attempted += 1
    if (issued instanceof Error) {
      refused += 1
      output.warn(cleanText(`${file}, ${nameOf(index)}: ${issued.message}`))
      return
    }
    const { tenant, principal, key, warnings } = issued
    for (const warning of warnings) output.warn(cleanText(`${principal}: ${warning}`))
    if (json) output.json(issued)
    else output.data([tenant, principal, key].join('\t'))
  }
  try {
    await keyClient(args, context).askEach(CREATE_KEY, requests, take)
  } catch (error) {
    output.warn(cleanText(`${file}: stopped at ${nameOf(attempted)}. ${resumeHint(attempted - refused)}`))
    throw error
  }
  const made = counted(entries.length - refused, 'key')
  output.note(`${made} created; they are shown only this once.${refused === 0 ? '' : ` ${refused} refused.`}`)
  return refused === 0 ? EXIT.ok : EXIT.usage
}

/** Running the command again with the same file is safe: created keys stay, and their names are refused. */
function resumeHint(made: number): string {
  const shown =
    made === 0
      ? 'No key was created.'
      : `${counted(made, 'key')} created before; shown above and only this once.`
  return `${shown} Fix the problem below and run the same command again: existing entries are refused, the others are created. An entry that is refused and has no key above gets another key with "collet keys rotate".`
}

/** Checks only that the file is a list of objects; the route checks the members. */
async function readEntries(file: string, { workingFolder }: CommandContext): Promise<readonly JsonObject[]> {
  const text = await readFile(resolve(workingFolder, file), 'utf8').catch((cause: unknown) => {
    throw new UsageError(`${file} cannot be read.`, { cause })
  })
  const value = parseJson(text)
  if (Array.isArray(value) && value.length > 0 && value.every(isJsonObject)) return value
  const problem = value === undefined ? 'is not JSON' : 'is not a list of objects'
  throw new UsageError(`${file} ${problem}. Write a list: [{ "principal": "agent", "tenant": "team1" }, …]`)
}

const keysRotate = operatorCommand({
  name: 'keys rotate',
  summary: 'Creates another API key with the same rights for a principal, and shows it once.',
  details: ['Its other keys stay valid unless --old-ends says when they end.'],
  positionals: [{ name: 'PRINCIPAL', help: 'Who gets the key.' }],
  options: {
    'old-ends': { value: 'SPAN', help: 'End the other keys after this time, such as 24h; 0s = now.' },
    tenant: { value: 'T', help: 'Tenant of the principal. Default: default.' },
    label: { value: 'TEXT', help: 'Purpose of the new key, for lists.' },
    expires: {
      value: 'WHEN',
      help: 'When the new key expires: 90d, or 2027-01-31T00:00:00Z. Default: never.',
    },
    ...KEY_OPTIONS,
  },
  examples: ['collet keys rotate ci --old-ends 24h'],
  client: keyClient,
  operation: ROTATE_KEY,
  request(args, context) {
    const oldEndsMs = args.spanMs('old-ends')
    const seconds = oldEndsMs === undefined ? undefined : oldEndsMs / 1_000
    return { body: { ...keyTerms(args, context), ...defined({ old_ends_in_seconds: seconds }) } }
  },
  print: (issued, { output }) => printKey(issued, output),
  note({ warnings }, { output }) {
    for (const warning of warnings) output.warn(cleanText(warning))
  },
})

/** Options shared by the two commands that create a key. */
function keyTerms(args: Arguments<'tenant' | 'label' | 'expires'>, { clock }: CommandContext): JsonObject {
  return defined({
    tenant: args.text('tenant'),
    label: args.text('label'),
    expires_at: args.expiry('expires', clock.nowMs()),
  })
}

/** Prints the key alone on stdout, so that it can be captured, and its description on stderr. */
function printKey(
  { tenant, principal, key_id: keyId, key, expires_at: expiresAt }: NewKey,
  output: Output,
): void {
  const end = expiresAt === null ? 'does not expire' : `expires ${expiresAt}`
  output.note(`Key ${keyId} for ${principal} (tenant ${tenant}) ${end}.`)
  output.note('It is shown only this once.')
  output.data(key)
}

const MAX_LISTED = 1_000

const keysList = listCommand({
  name: 'keys list',
  summary: 'Lists the API keys in the store, newest first: everything about them except the keys themselves.',
  details: ['The time of last use is updated about once a minute.'],
  options: KEY_OPTIONS,
  examples: ['collet keys list', 'collet keys list --json'],
  client: keyClient,
  operation: LIST_KEYS,
  rows: ({ keys }) => keys,
  columns: {
    'KEY ID': ({ key_id: id }) => id,
    PRINCIPAL: ({ principal }) => principal,
    TENANT: ({ tenant }) => tenant,
    STATE: (key, { clock }) => stateOf(key, clock.nowMs()),
    EXPIRES: ({ expires_at: at }) => at ?? '',
    'LAST USED': ({ last_used_at: at }) => at ?? '',
    SCOPES: (key) =>
      `${[...key.scopes, ...key.roles.map((role) => `role ${role}`)].join(' ')}${boundsOf(key)}`.trim(),
    LABEL: ({ label }) => label ?? '',
  },
  empty: 'There are no keys in this store.',
  note({ keys }, { output }) {
    if (keys.length === MAX_LISTED) output.note(`These are the newest ${MAX_LISTED}; there may be more.`)
  },
})

function boundsOf({ tools, toolsets }: ApiKey): string {
  if (tools === null) return ''
  const named = tools.length > 3 ? [`${tools.length} tools`] : tools
  return ` (only ${[...toolsets.map((name) => `toolset ${name}`), ...named].join(', ')})`
}

function stateOf({ revoked_at: revokedAt, expires_at: expiresAt }: ApiKey, nowMs: number): string {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && Date.parse(expiresAt) <= nowMs ? 'expired' : 'valid'
}

const KEY_ID = {
  id: 'key',
  name: 'KEY-ID',
  help: 'The key id that collet keys list shows, or its first characters.',
} as const

const keysRevoke: Command<AdminOption | 'principal' | 'tenant'> = {
  name: 'keys revoke',
  summary: 'Revokes an API key, or ends a principal with all its keys; servers notice within a second.',
  details: ['A principal that was ended cannot come back: its name is never used again.'],
  positionals: [{ ...KEY_ID, optional: true }],
  options: {
    principal: { value: 'P', help: 'End this principal instead of one key.' },
    tenant: { value: 'T', help: 'Tenant of that principal. Default: default.' },
    ...KEY_OPTIONS,
  },
  examples: ['collet keys revoke 5f0c9d2e', 'collet keys revoke --principal ci'],
  async run(args, context) {
    const principal = args.text('principal')
    if ((args.positionals[0] === undefined) === (principal === undefined))
      throw new UsageError('Name one key by its id, or one principal with --principal.')
    if (principal === undefined) return await revokeOne.run(args, context)
    const query = { tenant: args.text('tenant') ?? DEFAULT_TENANT }
    const ended = await keyClient(args, context).ask(END_PRINCIPAL, { id: principal, query })
    if (context.json) context.output.json(ended)
    else context.output.data(`${principal} is ended, and all its keys are revoked.`)
  },
}

const revokeOne = operatorCommand({
  ...keysRevoke,
  positionals: [KEY_ID],
  client: keyClient,
  operation: REVOKE_KEY,
  print: ({ key_id: id }, { output }) => output.data(`${id} is revoked.`),
})

/** Works on the store of this machine, even while a server uses it; the server sees the change within a second. */
function keyClient(args: Arguments<AdminOption>, context: CommandContext): AdminClient {
  return new AdminClient(args, context, {
    onStore: async ({ store, access }) => {
      const known = await namesFor(args, context, store)
      return createKeyRoutes(access, { store, clock: context.clock, ...known })
    },
  })
}

/** Names that a key may be granted, and principals of the config; all unknown with `--store` alone. */
async function namesFor(
  args: Arguments<AdminOption>,
  context: CommandContext,
  store: Store,
): Promise<Pick<KeyRoutesOptions, 'known' | 'isConfigured' | 'isOpen'>> {
  const loaded = await configHere(args, context)
  if (loaded === undefined) return { known: undefined, isConfigured: undefined, isOpen: undefined }
  const { toolsets, auth, approvals } = loaded.config
  // A tool that cannot be loaded must not keep keys from being created.
  const { tools: own, problems } = await loadTools(loaded)
  const hasAllTools = problems.every(({ severity }) => severity !== 'error')
  const { tools, sources, unread } = await findKnownTools(loaded.config, own, store)
  const known: KnownGrants = {
    tools,
    sources,
    toolsets: new Map(Object.entries(toolsets)),
    roles: new Map(Object.entries(auth.roles)),
    scopes: [...approverScopes(toApprovalRules(approvals)), ...[...unread.values()].flatMap(scopesOf)],
    mayComeLater: (name) => !hasAllTools || isImported(name, unread),
  }
  return {
    known: () => known,
    isOpen: () => !needsCredential(auth),
    isConfigured: ({ tenant, name }) =>
      auth.apiKeys.some((entry) => entry.tenant === tenant && entry.id === name),
  }
}

const KEY_BYTES = 32

const keysGenerate = defineCommand<never>({
  name: 'keys generate',
  summary: 'Prints a new random key of 32 bytes, for auth.apiKeys, auth.jwt.secret or COLLET_KEY.',
  options: {},
  examples: ['collet keys generate', 'export COLLET_KEY="$(collet keys generate)"'],
  async run(_, { output, json }) {
    // The key is in standard Base64 (OTC-103): one in base64url could begin with "-" and be read as an option.
    const key = randomBytes(KEY_BYTES).toString('base64')
    if (json) output.json({ key })
    else output.data(key)
  },
})

export const COMMANDS = [keysCreate, keysRotate, keysList, keysRevoke, keysGenerate]
