import { z } from 'zod'
import { didYouMean } from '#core/nearest-name'
import type { Hooks } from '#core/ports/hooks'
import { DEFAULT_TENANT } from '#core/principal'
import { Secret } from '#core/secret'
import { approvalsSchema } from './approvals-schema.ts'
import { parseStoreUrl } from './store-url.ts'

/** Longest delay a Node timer can hold. */
const LONGEST_TIMER_MS = 2_147_483_647
const MIB = 1024 * 1024
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const
/** Separates the unknown keys of one object, which zod reports as one issue. */
export const LINE = '\n'

const HOME_OF: ReadonlyMap<string, string> = new Map(
  [
    ...['host', 'port', 'publicUrl', 'bodyLimitBytes', 'allowedOrigins'].map((key) => `server.${key}`),
    ...['apiKeys', 'jwt'].map((key) => `auth.${key}`),
    ...['retentionHours', 'defaultTimeoutMs', 'maxResultBytes'].map((key) => `calls.${key}`),
    'journal.retentionDays',
    ...['stringIdsAreKeys', 'streaming'].map((key) => `opentool.${key}`),
    'telemetry.otlpEndpoint',
  ].map((path) => [path.slice(path.indexOf('.') + 1), path]),
)

/** An object that refuses keys it does not know, and says which one was probably meant. */
function closed<Shape extends z.ZodRawShape>(shape: Shape) {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? unknownKeys(issue.keys, known) : undefined),
  })
}

function unknownKeys(keys: readonly string[], known: readonly string[]): string {
  return keys
    .map((key) => {
      const home = HOME_OF.get(key)
      const suggestion = home === undefined ? didYouMean(key, known) : ` Did you mean "${home}"?`
      return `unknown key "${key}".${suggestion === '' ? ` Known here: ${known.join(', ')}.` : suggestion}`
    })
    .join(LINE)
}

const TEXT = z.string().min(1)
const WHOLE = z.int()

const HTTP_URL = TEXT.transform((text, context) => {
  const url = URL.parse(text)
  if (
    url !== null &&
    (url.protocol === 'http:' || url.protocol === 'https:') &&
    url.search === '' &&
    url.hash === ''
  ) {
    return url.href.replace(/\/+$/, '')
  }
  context.addIssue(
    'expected an absolute http or https URL without query, for example "https://tools.example.com".',
  )
  return z.NEVER
})

/** May have a query: chat services put their own key there. */
const WEBHOOK_URL = TEXT.refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), {
  error: 'expected an http or https URL.',
})

const ORIGIN = TEXT.refine((text) => URL.parse(text)?.origin === text, {
  error: 'expected an origin: scheme, host and port without a path, for example "https://app.example.com".',
})

const STORE = TEXT.superRefine((text, context) => {
  const url = parseStoreUrl(text)
  if (url.kind === 'invalid') context.addIssue(url.problem)
})

const SCOPE = z.string().regex(/^[^\s:]+(:[^\s:]+)*$/, {
  error: 'expected segments joined by ":", for example "mail:read" or "mail:*".',
})

/** Principal names travel in logs and digests, so they are plain. */
const NAME = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/, {
  error: 'expected 1 to 128 letters, digits, ".", "_", "@" or "-", beginning with a letter or digit.',
})

const API_KEY = closed({
  id: NAME,
  key: TEXT.regex(/^[\x21-\x7e]+$/, {
    error: 'a key travels in a header: printable ASCII without spaces. "collet keys generate" makes one.',
  }),
  tenant: NAME.default(DEFAULT_TENANT),
  scopes: z.array(SCOPE).default([]),
})

const API_KEYS = z
  .array(API_KEY)
  .superRefine((entries, context) => {
    const seen = new Map<string, number>()
    for (const [index, { key }] of entries.entries()) {
      const first = seen.get(key)
      if (first === undefined) seen.set(key, index)
      else
        context.addIssue({
          code: 'custom',
          path: [index, 'key'],
          message: `is the same key as apiKeys[${first}]; give each entry its own.`,
        })
    }
  })
  .transform((entries) => entries.map(({ key, ...entry }) => ({ ...entry, key: new Secret(key) })))

const JWT = closed({
  secret: TEXT.transform((text) => new Secret(text)),
  audiences: z.array(TEXT).default([]),
  maxLifetimeSeconds: WHOLE.min(1).default(900),
})

/** A function can only be seen to be one; its type is the config's. */
function hook<Name extends keyof Hooks>() {
  return z
    .custom<NonNullable<Hooks[Name]>>((value) => typeof value === 'function', {
      error: 'expected a function.',
    })
    .optional()
}

const TOOLKIT_NAME = z.string().regex(/^[A-Za-z0-9_]+$/)

/** The shape of a config, with every default. */
export const CONFIG_SCHEMA = closed({
  tools: z.array(z.unknown()).default([]),
  toolkits: z.record(TOOLKIT_NAME, closed({ description: TEXT })).default({}),
  server: closed({
    host: TEXT.default('127.0.0.1'),
    port: WHOLE.min(0).max(65_535).default(4100),
    publicUrl: HTTP_URL.optional(),
    bodyLimitBytes: WHOLE.min(1024).default(MIB),
    allowedOrigins: z.array(ORIGIN).default([]),
  }).prefault({}),
  store: STORE.default('sqlite:.collet/collet.db'),
  auth: closed({ apiKeys: API_KEYS.prefault([]), jwt: JWT.optional() }).prefault({}),
  calls: closed({
    retentionHours: WHOLE.min(1).default(24),
    defaultTimeoutMs: WHOLE.min(1).max(LONGEST_TIMER_MS).default(60_000),
    maxResultBytes: WHOLE.min(1024).default(MIB),
  }).prefault({}),
  journal: closed({ retentionDays: WHOLE.min(1).default(90) }).prefault({}),
  openwop: closed({
    catalog: z.boolean().default(true),
    compactView: z.boolean().default(true),
    sessions: z.boolean().default(true),
  }).prefault({}),
  otc: closed({
    strictRequests: z.boolean().default(false),
    hideDeveloperMessages: z.boolean().default(false),
    omitListKey: z.enum(['tools', 'items']).optional(),
  }).prefault({}),
  opentool: closed({
    title: TEXT.default('Collet'),
    version: TEXT.optional(),
    description: TEXT.optional(),
    stringIdsAreKeys: z.boolean().default(false),
    streaming: z.boolean().default(false),
  }).prefault({}),
  approvals: approvalsSchema({ closed, url: WEBHOOK_URL, scope: SCOPE, name: NAME }),
  acknowledgeLaxerVersions: z.array(TEXT).default([]),
  authoring: closed({ describeParameters: z.boolean().default(true) }).prefault({}),
  hooks: closed({
    admit: hook<'admit'>(),
    verifyToken: hook<'verifyToken'>(),
    bindUser: hook<'bindUser'>(),
  }).prefault({}),
  log: closed({ level: z.enum(LOG_LEVELS).default('info') }).prefault({}),
  telemetry: closed({ otlpEndpoint: HTTP_URL.optional() }).prefault({}),
}).refine(({ calls, journal }) => journal.retentionDays * 24 >= calls.retentionHours, {
  path: ['journal', 'retentionDays'],
  error: 'must be at least as long as calls.retentionHours: a key outlives its result (rule 13).',
})

/** A checked config with every default filled in; keys and secrets already wrapped. */
export type ParsedConfig = z.output<typeof CONFIG_SCHEMA>
