import { z } from 'zod'
import { didYouMean } from '#core/nearest-name'
import { DEFAULT_TENANT } from '#core/principal'
import type { Hooks } from '#core/runtime'
import { Secret } from '#core/secret'
import { LONGEST_TIMER_MS } from '#core/tool'
import { EGRESS_LIMITS, parseAllowEntry } from '#egress/policy'
import { PROTOCOLS } from '#protocols/list'
import { SOURCE_OPTIONS } from '#sources/source-types'
import { approvalsSchema, BUDGETS, closed, LIMITS, OAUTH } from './schema-policies.ts'
import { ISSUER_ALGORITHMS } from './settings.ts'

/** The key is the toolkit of the source's tools. */
const SOURCE_KEY = z.string().regex(/^[A-Za-z0-9_]{1,64}$/)

const SOURCES = z.record(SOURCE_KEY, SOURCE_OPTIONS).default({})

/** What `store` names, before its path is made absolute. */
type StoreUrl =
  | { readonly kind: 'sqlite'; readonly path: string }
  | { readonly kind: 'memory' }
  | { readonly kind: 'invalid'; readonly problem: string }

const FORMS = 'Write "sqlite:PATH" or "memory:".'

/** Reads `sqlite:PATH` and `memory:`. The text is not repeated in problems: it may hold a password. */
export function parseStoreUrl(text: string): StoreUrl {
  const [, scheme = '', rest = ''] = /^([A-Za-z][A-Za-z0-9+.-]*):(.*)$/s.exec(text) ?? []
  if (scheme === 'memory') {
    return rest === '' ? { kind: 'memory' } : invalid('"memory:" takes nothing after the colon.')
  }
  if (scheme === 'sqlite') return sqliteUrl(rest)
  if (scheme === 'postgres' || scheme === 'postgresql') {
    return invalid(`PostgreSQL stores come in a later release. ${FORMS}`)
  }
  return invalid(`expected a store address. ${FORMS}`)
}

function sqliteUrl(path: string): StoreUrl {
  if (path === '') return invalid('"sqlite:" needs a path, for example "sqlite:.collet/collet.db".')
  if (path === ':memory:') return invalid('a store without a file is written "memory:".')
  if (path.startsWith('//')) {
    return invalid(
      'write the path directly after "sqlite:", without "//", for example "sqlite:.collet/collet.db".',
    )
  }
  if (path.includes('\0')) return invalid('a path cannot contain NUL.')
  return { kind: 'sqlite', path }
}

function invalid(problem: string): StoreUrl {
  return { kind: 'invalid', problem }
}

const MIB = 1024 * 1024
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

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

export const SCOPE = z.string().regex(/^[^\s:]+(:[^\s:]+)*$/, {
  error: 'expected segments joined by ":", for example "mail:read" or "mail:*".',
})

/** Principal names travel in logs and digests, so they are plain. */
export const NAME = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/, {
  error: 'expected 1 to 128 letters, digits, ".", "_", "@" or "-", beginning with a letter or digit.',
})

const API_KEY = closed({
  id: NAME,
  key: TEXT.regex(/^[\x21-\x7e]+$/, {
    error: 'a key travels in a header: printable ASCII without spaces. "collet keys generate" makes one.',
  }),
  tenant: NAME.default(DEFAULT_TENANT),
  scopes: z.array(SCOPE).default([]),
  roles: z.array(NAME).default([]),
  tools: z.array(TEXT).optional(),
  expiresAt: z.iso
    .datetime({
      offset: true,
      error: 'expected a moment with a zone, for example "2027-01-31T00:00:00Z".',
    })
    .optional(),
  label: TEXT.max(200).optional(),
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
  .transform((entries) =>
    entries.map(({ key, expiresAt, ...entry }) => ({
      ...entry,
      tools: entry.tools,
      label: entry.label,
      key: new Secret(key),
      expiresAtMs: expiresAt === undefined ? undefined : Date.parse(expiresAt),
    })),
  )

const JWT = closed({
  secret: TEXT.transform((text) => new Secret(text)),
  audiences: z.array(TEXT).default([]),
  maxLifetimeSeconds: WHOLE.min(1).default(900),
})

const ALLOW_ENTRY = TEXT.superRefine((text, context) => {
  const parsed = parseAllowEntry(text)
  if (!parsed.ok) context.addIssue(parsed.problem)
})

/** A member name, or the path of one. */
const CLAIM = z.union([TEXT.transform((name) => [name]), z.array(TEXT).min(1)])

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** Keys in the clear could be anybody's, except on this machine. */
const ISSUER_URL = TEXT.refine(
  (text) => {
    const url = URL.parse(text)
    if (url === null || url.search !== '' || url.hash !== '' || url.username !== '') return false
    return url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.test(url.hostname))
  },
  { error: 'expected an https URL without query, for example "https://login.example.com".' },
)

const ISSUER = closed({
  issuer: ISSUER_URL,
  audience: z.union([TEXT.transform((audience) => [audience]), z.array(TEXT).min(1)]),
  jwksUri: ISSUER_URL.optional(),
  claims: closed({ tenant: CLAIM.optional(), scopes: CLAIM.optional(), roles: CLAIM.optional() }).prefault(
    {},
  ),
  tenant: NAME.default(DEFAULT_TENANT),
  allowDefaultTenant: z.boolean().default(false),
  algorithms: z.array(z.enum(ISSUER_ALGORITHMS)).min(1).optional(),
}).transform(({ audience, claims, ...issuer }) => ({
  ...issuer,
  audiences: audience,
  jwksUri: issuer.jwksUri,
  algorithms: issuer.algorithms,
  claims: { tenant: claims.tenant, scopes: claims.scopes, roles: claims.roles },
}))

const AUTH = closed({
  apiKeys: API_KEYS.prefault([]),
  jwt: JWT.optional(),
  issuers: z.array(ISSUER).prefault([]),
  roles: z.record(z.string(), z.array(SCOPE)).default({}),
  required: z.boolean().default(false),
}).superRefine(({ apiKeys, issuers, roles }, context) => {
  for (const role of Object.keys(roles)) {
    const [issue] = NAME.safeParse(role).error?.issues ?? []
    if (issue !== undefined)
      context.addIssue({ code: 'custom', path: ['roles', role], message: issue.message })
  }
  for (const [index, { roles: held }] of apiKeys.entries()) {
    for (const role of held.filter((name) => !Object.hasOwn(roles, name))) {
      const message = `there is no role "${role}" in auth.roles.${didYouMean(role, Object.keys(roles))}`
      context.addIssue({ code: 'custom', path: ['apiKeys', index, 'roles'], message })
    }
  }
  for (const [index, { issuer }] of issuers.entries()) {
    if (issuers.findIndex((other) => other.issuer === issuer) === index) continue
    const message = 'is listed twice; give one entry all its audiences.'
    context.addIssue({ code: 'custom', path: ['issuers', index, 'issuer'], message })
  }
})

/** A function can only be seen to be one; its type is the config's. */
function hook<Name extends keyof Hooks>() {
  return z
    .custom<NonNullable<Hooks[Name]>>((value) => typeof value === 'function', {
      error: 'expected a function.',
    })
    .optional()
}

/** The section that each protocol says it has. */
function sectionsOf<Table extends Readonly<Record<string, { readonly settings: z.ZodRawShape }>>>(
  table: Table,
): { [Name in keyof Table]: z.ZodPrefault<ReturnType<typeof closed<Table[Name]['settings']>>> }
function sectionsOf(table: Readonly<Record<string, { readonly settings: z.ZodRawShape }>>) {
  return Object.fromEntries(
    Object.entries(table).map(([name, { settings }]) => [name, closed(settings).prefault({})]),
  )
}

/** The sections of the protocols; parsing a config leaves nothing else of it. */
export const PROTOCOL_SECTIONS = z.object(sectionsOf(PROTOCOLS))

const TOOLKIT_NAME = z.string().regex(/^[A-Za-z0-9_]+$/)

/** The shape of a config, with every default. */
export const CONFIG_SCHEMA = closed({
  tools: z.array(z.unknown()).default([]),
  sources: SOURCES,
  toolkits: z.record(TOOLKIT_NAME, closed({ description: TEXT })).default({}),
  server: closed({
    host: TEXT.default('127.0.0.1'),
    port: WHOLE.min(0).max(65_535).default(4100),
    publicUrl: HTTP_URL.optional(),
    bodyLimitBytes: WHOLE.min(1024).default(MIB),
    allowedOrigins: z.array(ORIGIN).default([]),
    metricsPort: WHOLE.min(0).max(65_535).optional(),
    metricsHost: TEXT.optional(),
    maxConnections: WHOLE.min(1).default(10_000),
  }).prefault({}),
  store: STORE.default('sqlite:.collet/collet.db'),
  auth: AUTH.prefault({}),
  oauth: OAUTH.prefault({}),
  calls: closed({
    retentionHours: WHOLE.min(1).default(24),
    defaultTimeoutMs: WHOLE.min(1).max(LONGEST_TIMER_MS).default(60_000),
    maxResultBytes: WHOLE.min(1024).default(MIB),
  }).prefault({}),
  journal: closed({ retentionDays: WHOLE.min(1).default(90) }).prefault({}),
  egress: closed({
    allow: z.array(ALLOW_ENTRY).default([]),
    maxResponseBytes: WHOLE.min(1024).default(EGRESS_LIMITS.maxResponseBytes),
    timeoutMs: WHOLE.min(1).max(LONGEST_TIMER_MS).default(EGRESS_LIMITS.timeoutMs),
    maxRedirects: WHOLE.min(0).max(20).default(EGRESS_LIMITS.maxRedirects),
  }).prefault({}),
  limits: LIMITS,
  budgets: BUDGETS,
  ...PROTOCOL_SECTIONS.shape,
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
  error:
    'must be at least as long as calls.retentionHours: the key of a call is kept longer than its result.',
})

/** A checked config with every default filled in; keys and secrets already wrapped. */
export type ParsedConfig = z.output<typeof CONFIG_SCHEMA>
