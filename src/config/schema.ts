import { z } from 'zod'
import { EGRESS_LIMITS, parseAllowEntry } from '#egress/policy'
import type { Hooks } from '#kernel/base/hooks'
import { didYouMean } from '#kernel/base/nearest-name'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import { MAX_TIMER_MS, POLICY_FIELDS } from '#kernel/tool/tool'
import { DISCOVERIES, FORMS, readSelector, TOOLSET_PREFIX } from '#kernel/tool/toolsets'
import { PROTOCOLS } from '#protocols/list'
import type { Embed } from '#search/embedding'
import { SOURCE_OPTIONS } from '#sources/source-types'
import { DEFAULT_STORE, parseStoreUrl } from '#store/stores'
import { CONSOLE_SIGN_IN, OAUTH } from './schema-oauth.ts'
import { approvalTerms, BUDGETS, closed, LIMITS, optionalFunction, privateUrl } from './schema-policies.ts'
import { alertsSchema, approvalWebhooksSchema, webhooksSchema } from './schema-webhooks.ts'
import { ISSUER_ALGORITHMS } from './settings.ts'

/*
 * The schema of a config: types, defaults, checks and hover texts.
 * The loader parses with it; `config.ts` and `settings.ts` derive their types from it.
 * Invariant: every setting and its default is declared here, or in a section that this module includes.
 */

/** The key is the toolkit of the source's tools. */
const SOURCE_KEY = z
  .string()
  .regex(/^[A-Za-z0-9_]{1,64}$/, { error: 'a source name has 1 to 64 letters, digits and "_".' })

const MIB = 1024 * 1024
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

const TEXT = z.string().min(1)
const WHOLE = z.int()

const HTTP_URL = TEXT.transform((text, context) => {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol) && url.search === '' && url.hash === '')
    return url.href.replace(/\/+$/, '')
  context.addIssue(
    'expected an absolute http or https URL without query, for example "https://tools.example.com".',
  )
  return z.NEVER
})

/** May have a query, because chat services put their own key there. */
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

/** Principal names appear in logs and digests, so only plain characters are allowed. */
export const NAME = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/, {
  error: 'expected 1 to 128 letters, digits, ".", "_", "@" or "-", beginning with a letter or digit.',
})

/** The name is part of a URL. */
const TOOLSET_NAME = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, {
  error: 'expected 1 to 64 letters, digits, "_" or "-", beginning with a letter or digit.',
})

const SELECTOR = TEXT.refine((text) => !['toolset', undefined].includes(readSelector(text)?.kind), {
  error: `is neither a tool name nor a pattern. ${FORMS}`,
})

const TOOLSETS = z.record(
  TOOLSET_NAME,
  closed({
    /** What the toolset is for, in your words. */
    description: TEXT.optional(),
    /** Names, patterns such as `Crm.*`, `source:KEY` and `tag:NAME`. Default every tool. */
    include: z.array(SELECTOR).default(['*']),
    /** Selectors of tools that are left out. Default none. */
    exclude: z.array(SELECTOR).default([]),
    /** Highest safety tier of its tools: `pure`, `read`, `write` or `exec`. Default any tier. */
    tier: z.enum(POLICY_FIELDS.safetyTier.choices).optional(),
    /** `native`: MCP clients at `/mcp/<name>` use the names that the sources give their tools and prompts, without prefixes. Default the names that every client accepts, with prefixes. */
    names: z.literal('native').optional(),
    /** `search`: MCP clients at `/mcp/<name>` find tools with `search_tools` instead of a list. Default `mcp.discovery`. */
    discovery: z.enum(DISCOVERIES).optional(),
    /** Selectors of tools that are listed with `search` too. Default `mcp.favourites`. */
    favourites: z.array(SELECTOR).optional(),
  }),
)

const ROLE = z
  .union(
    [
      z.array(z.string()),
      closed({
        scopes: z.array(SCOPE).default([]),
        /** Holders of the role see only tools of these toolsets, or of their other roles' toolsets. Default: no limit. */
        toolsets: z.array(TEXT).optional(),
      }),
    ],
    {
      error:
        'expected a list of scopes, or an object such as { "scopes": ["crm:read"], "toolsets": ["crm"] }.',
    },
  )
  .transform((role, context) => {
    if (!Array.isArray(role)) return role
    // Scopes are checked here, because a union does not report problems inside one of its forms.
    for (const [index, scope] of role.entries()) {
      const [issue] = SCOPE.safeParse(scope).error?.issues ?? []
      if (issue !== undefined)
        context.addIssue({ code: 'custom', path: [index], message: issue.message, input: scope })
    }
    return { scopes: role, toolsets: undefined }
  })

const API_KEY = closed({
  /** The key acts as the principal `key:<id>`. Entries may share an id while a key is being rotated. */
  id: NAME,
  /** At least 32 random bytes: `collet keys generate` makes a key. */
  key: TEXT.regex(/^[\x21-\x7e]+$/, {
    error: 'a key must be printable ASCII without spaces. "collet keys generate" makes a key.',
  }),
  /** Default `default`. */
  tenant: NAME.default(DEFAULT_TENANT),
  /** Scopes of the key. Absent = only tools that need no scope. */
  scopes: z.array(SCOPE).default([]),
  /** Names in `auth.roles`, whose scopes the key also has. */
  roles: z.array(NAME).default([]),
  /** Names and patterns, such as `Mail.Send` or `Mail.*`: the key sees these tools and no others. Absent = all tools that its scopes allow. */
  tools: z.array(TEXT).optional(),
  /** Names in `toolsets`: the key sees their tools, those of `tools`, and no others. */
  toolsets: z.array(TEXT).optional(),
  /** ISO 8601 with a zone, such as `2027-01-31T00:00:00Z`: from then on the key is not valid. */
  expiresAt: z.iso
    .datetime({
      offset: true,
      error: 'expected a date and time with a zone, for example "2027-01-31T00:00:00Z".',
    })
    .optional(),
  /** What the key is for, in your words. */
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
    entries.map(({ key, expiresAt, tools, toolsets, ...entry }) => ({
      ...entry,
      ...(tools === undefined && toolsets === undefined
        ? {}
        : { tools: [...(tools ?? []), ...(toolsets ?? []).map((name) => TOOLSET_PREFIX + name)] }),
      key: new Secret(key),
      expiresAtMs: expiresAt === undefined ? undefined : Date.parse(expiresAt),
    })),
  )

const JWT = closed({
  /** Shared HS256 secret of at least 32 random bytes. */
  secret: TEXT.transform((text) => new Secret(text)),
  /** Accepted `aud` values. */
  audiences: z.array(TEXT).default([]),
  /** Latest accepted `exp`, in seconds from now. Default 900. */
  maxLifetimeSeconds: WHOLE.min(1).default(900),
})

const ALLOW_ENTRY = TEXT.superRefine((text, context) => {
  const parsed = parseAllowEntry(text)
  if (!parsed.ok) context.addIssue(parsed.problem)
})

const ONE_OR_MORE = z.union([TEXT.transform((text) => [text]), z.array(TEXT).min(1)])

/** Keys over plain http could be forged, except on this machine. */
const ISSUER_URL = privateUrl(
  'expected an https URL without query, for example "https://login.example.com".',
  { mayHaveQuery: false },
)

const ISSUER = closed({
  /** Exactly as in the `iss` of its tokens: https, or http on loopback. */
  issuer: ISSUER_URL,
  /** Value of `aud` in its tokens for this server. */
  audience: ONE_OR_MORE,
  /** Where its keys are, if it has no discovery document. */
  jwksUri: ISSUER_URL.optional(),
  /** Claims of a token, each as the name of a member or the path to it. */
  claims: closed({
    /** The claim with the tenant; if it is set, every token must have this claim. Default: all tokens are for `tenant`. */
    tenant: ONE_OR_MORE.optional(),
    /** Default `scope`. */
    scopes: ONE_OR_MORE.optional(),
    /** Default: tokens grant no roles. */
    roles: ONE_OR_MORE.optional(),
  }).prefault({}),
  /** Default `default`. */
  tenant: NAME.default(DEFAULT_TENANT),
  /** Whether `claims.tenant` of a token may be `default`, the tenant of the server's operator. Default `false`. */
  allowDefaultTenant: z.boolean().default(false),
  /** Scopes that clients should request from it. Default none. */
  scopes: z
    .array(TEXT.regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'expected a scope: no spaces, quotes or backslashes.'))
    .default([]),
  /** Default: all asymmetric algorithms. */
  algorithms: z.array(z.enum(ISSUER_ALGORITHMS)).min(1).optional(),
}).transform(({ audience, ...issuer }) => ({ ...issuer, audiences: audience }))

const AUTH = closed({
  apiKeys: API_KEYS.prefault([]),
  jwt: JWT.optional(),
  /** OpenID Connect issuers whose access tokens are accepted. */
  issuers: z.array(ISSUER).prefault([]),
  /** Scopes by role, or scopes and toolsets. A role that is not here grants nothing. */
  roles: z.record(NAME, ROLE).default({}),
  /** Refuse callers without a credential, even before `collet keys create` has made the first key. Default false. */
  required: z.boolean().default(false),
}).superRefine(({ apiKeys, issuers, roles }, context) => {
  for (const [index, { roles: ownRoles }] of apiKeys.entries()) {
    for (const role of ownRoles.filter((name) => !Object.hasOwn(roles, name))) {
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

/** The config section that each protocol declares. */
function sectionsOf<Table extends Readonly<Record<string, { readonly settings: z.ZodRawShape }>>>(
  table: Table,
): { [Name in keyof Table]: z.ZodPrefault<ReturnType<typeof closed<Table[Name]['settings']>>> }
function sectionsOf(table: Readonly<Record<string, { readonly settings: z.ZodRawShape }>>) {
  return Object.fromEntries(
    Object.entries(table).map(([name, { settings }]) => [name, closed(settings).prefault({})]),
  )
}

/** The sections of the protocols; parsing a config with it drops everything else. */
export const PROTOCOL_SECTIONS = z.object(sectionsOf(PROTOCOLS))

const TOOLKIT_NAME = z
  .string()
  .regex(/^[A-Za-z0-9_]+$/, { error: 'a toolkit name has only letters, digits and "_".' })

const MODEL_BYTES = z
  .union([z.literal(false).transform(() => 0), WHOLE.min(0)])
  .refine((bytes) => bytes === 0 || bytes >= 2_000, { error: 'expected at least 2000, or 0 for no limit.' })

/** The shape of a config, with every default. */
export const CONFIG_SCHEMA = closed({
  /**
   * Tools made by `tool()`, and paths or globs (relative to the config file) of files that export tools. They are
   * listed in this order; the files of one glob, and the exports of one file, by name.
   */
  tools: z.array(z.unknown()).default([]),
  /** Where further tools come from. The key is the toolkit of the tools: `<key>.<name>`. */
  sources: z.record(SOURCE_KEY, SOURCE_OPTIONS).default({}),
  toolkits: z.record(TOOLKIT_NAME, closed({ description: TEXT })).default({}),
  /** Named sets of tools. Each is served at `/mcp/<name>`, and keys and roles may be limited to some of them. */
  toolsets: TOOLSETS.default({}),
  server: closed({
    /** Default `127.0.0.1`. Any address other than loopback needs `auth`. */
    host: TEXT.default('127.0.0.1'),
    /** Default 4100; 0 = any free port. */
    port: WHOLE.min(0).max(65_535).default(4100),
    /** Absolute URL under which callers reach the server; default the bound address. */
    publicUrl: HTTP_URL.optional(),
    /** Default 1 MiB. */
    bodyLimitBytes: WHOLE.min(1024).default(MIB),
    /** Origins of web pages that may call the server. Default none. */
    allowedOrigins: z.array(ORIGIN).default([]),
    /** Serve `/metrics` on this port too, where it needs no credential. Default none. */
    metricsPort: WHOLE.min(0).max(65_535).optional(),
    /** Address of that listener. Default `127.0.0.1`. */
    metricsHost: TEXT.optional(),
    /** Where other replicas on the same PostgreSQL database forward calls for sessions that are open on this replica. Default this machine only. */
    internal: closed({
      /** Default `127.0.0.1`; use a private address of this machine if replicas run on several machines. */
      host: TEXT.default('127.0.0.1'),
      /** Default 0 = any free port. */
      port: WHOLE.min(0).max(65_535).default(0),
      /** How other replicas reach this address; default its host and port. */
      url: HTTP_URL.optional(),
    }).optional(),
    /** Speak https, and nothing else, on the port. Both files are PEM, and are read again when they change. Default http. */
    tls: closed({
      /** The server's certificate, followed by the intermediate certificates. Relative to the config file. */
      cert: TEXT,
      /** The certificate's private key, not encrypted. Relative to the config file. */
      key: TEXT,
    }).optional(),
    /** Milliseconds during which calls are still accepted after SIGTERM, while `/health` already returns 503. Default 2 000. */
    drainMs: WHOLE.min(0).max(600_000).default(2_000),
    /** Maximum number of open connections; further connections are closed at once. Default 10 000. */
    maxConnections: WHOLE.min(1).default(10_000),
  }).prefault({}),
  /** `sqlite:PATH` (relative to the config file), `postgres://…` or `memory:`. Default `sqlite:.collet/collet.db`. */
  store: STORE.default(DEFAULT_STORE),
  /** Absent = no credential is needed, and the server listens on loopback only. */
  auth: AUTH.prefault({}),
  /** Authorization servers whose tokens this server keeps for its callers. */
  oauth: OAUTH.prefault({}),
  /** The pages at `/console`, where people look at tools and calls, run tools, decide approvals and connect sources. */
  console: closed({
    /** Serve these pages. Default true. */
    enabled: z.boolean().default(true),
    /** Sign in at an identity provider, besides API keys and start links. Default none. */
    signIn: CONSOLE_SIGN_IN.optional(),
  }).prefault({}),
  calls: closed({
    /** How long results are kept. Default 24. */
    retentionHours: WHOLE.min(1).default(24),
    /** Timeout of tools that set no `timeoutMs`. Default 60 000. */
    defaultTimeoutMs: WHOLE.min(1).max(MAX_TIMER_MS).default(60_000),
    /** Largest result that is kept and returned. Default 16 MiB: enough for the 10 MiB that sources read, even in base64. */
    maxResultBytes: WHOLE.min(1024).default(16 * MIB),
  }).prefault({}),
  results: closed({
    /** Bytes of a result that a model gets at once, over MCP; a larger result is shortened for it and kept whole. 0 or `false` = all. Default 32 000, about 8 000 tokens. */
    modelBytes: MODEL_BYTES.default(32_000),
  }).prefault({}),
  journal: closed({
    /** How long the journal and the keys of calls are kept. Default 90. */
    retentionDays: WHOLE.min(1).default(90),
  }).prefault({}),
  /** What tools may reach with `ctx.fetch`: the internet, and only the local hosts and networks that are allowed here. */
  egress: closed({
    /** Local upstreams: `host`, `host:port`, `[v6]:port` or a range such as `10.1.0.0/16`. Default none. */
    allow: z.array(ALLOW_ENTRY).default([]),
    /** Default 10 MiB. */
    maxResponseBytes: WHOLE.min(1024).default(EGRESS_LIMITS.maxResponseBytes),
    /** Time limit for a whole exchange, redirects and body included. Default 30 000. */
    timeoutMs: WHOLE.min(1).max(MAX_TIMER_MS).default(EGRESS_LIMITS.timeoutMs),
    /** Default 5. */
    maxRedirects: WHOLE.min(0).max(20).default(EGRESS_LIMITS.maxRedirects),
  }).prefault({}),
  /** Rates and numbers of new runs. Default: at most 1 000 runs at once, and no new run while the server is overloaded. */
  limits: LIMITS,
  /** How much principals and tenants may use in a period; the usage survives restarts. Default no budget. */
  budgets: BUDGETS,
  ...PROTOCOL_SECTIONS.shape,
  approvals: closed({
    ...approvalTerms(SCOPE),
    /** Receivers of every new request for approval and nothing else; `webhooks` can receive other events too. */
    webhooks: approvalWebhooksSchema({ url: WEBHOOK_URL, name: NAME }),
  }).prefault({}),
  /** Receivers of events that need an operator's attention: approvals, changed definitions, calls to settle, budgets. */
  webhooks: webhooksSchema({ url: WEBHOOK_URL, name: NAME }),
  /** Conditions that webhooks report when they begin and when they end: an error rate, the use of a budget, a source that is down. */
  alerts: alertsSchema({ name: NAME }),
  /** Older versions that may be served although a newer one is stricter about approval, scopes or tier. */
  acknowledgeLaxerVersions: z.array(TEXT).default([]),
  authoring: closed({
    /** Whether every parameter needs a description. Default true. */
    describeParameters: z.boolean().default(true),
  }).prefault({}),
  /** The operator's own checks; not in a JSON config. */
  hooks: closed({
    admit: optionalFunction<NonNullable<Hooks['admit']>>(),
    verifyToken: optionalFunction<NonNullable<Hooks['verifyToken']>>(),
    bindUser: optionalFunction<NonNullable<Hooks['bindUser']>>(),
  }).prefault({}),
  search: closed({
    /** Remember what was asked before a successful call, and use it in later searches of the same tenant. Default true. */
    learn: z.boolean().default(true),
    /** The operator's embedding model: returns one vector for each text. Not in a JSON config. Default none. */
    embed: optionalFunction<Embed>(),
  }).prefault({}),
  log: closed({
    /** Default `info`. */
    level: z.enum(LOG_LEVELS).default('info'),
    /** `pretty`: lines for people, one for each call. `json`: lines for machines. Default `auto`: pretty on a terminal, JSON elsewhere. */
    format: z.enum(['auto', 'pretty', 'json']).default('auto'),
  }).prefault({}),
  telemetry: closed({
    /** OTLP/HTTP endpoint for traces and metrics, for example `http://127.0.0.1:4318`. Default none. */
    otlpEndpoint: HTTP_URL.optional(),
    /** What is exported to the endpoint. Default both. */
    exports: z.array(z.enum(['traces', 'metrics'])).default(['traces', 'metrics']),
    /** Time between two exports of metrics. Default 60 000. */
    metricsIntervalMs: z.int().min(1_000).max(3_600_000).default(60_000),
    /** Count calls in `/metrics` for each tenant too, up to a thousand tenants. Default false. */
    tenantLabel: z.boolean().default(false),
  }).prefault({}),
})
  .superRefine(({ toolsets, auth: { apiKeys, roles } }, context) => {
    const check = (name: string, path: (string | number)[]): void => {
      if (Object.hasOwn(toolsets, name)) return
      const message = `there is no toolset "${name}" in toolsets.${didYouMean(name, Object.keys(toolsets))}`
      context.addIssue({ code: 'custom', path: ['auth', ...path, 'toolsets'], message })
    }
    for (const [index, { tools = [] }] of apiKeys.entries()) {
      for (const text of tools)
        if (text.startsWith(TOOLSET_PREFIX)) check(text.slice(TOOLSET_PREFIX.length), ['apiKeys', index])
    }
    for (const [role, held] of Object.entries(roles))
      for (const name of held.toolsets ?? []) check(name, ['roles', role])
  })
  .superRefine(({ console: { signIn }, auth: { issuers } }, context) => {
    const known = issuers.map(({ issuer }) => issuer)
    if (signIn === undefined || known.includes(signIn.issuer)) return
    const message = `is not among auth.issuers, which define who its users are and what they may do: add { issuer: '${signIn.issuer}', audience: '${signIn.clientId}' } there.${didYouMean(signIn.issuer, known)}`
    context.addIssue({ code: 'custom', path: ['console', 'signIn', 'issuer'], message })
  })
  .refine(({ calls, journal }) => journal.retentionDays * 24 >= calls.retentionHours, {
    path: ['journal', 'retentionDays'],
    error:
      'must be at least as long as calls.retentionHours: the key of a call is kept longer than its result.',
  })

/** A checked config with every default filled in; keys and secrets already wrapped. */
export type ParsedConfig = z.output<typeof CONFIG_SCHEMA>
