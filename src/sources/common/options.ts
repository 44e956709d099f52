import { z } from 'zod'
import { shortHash } from '#core/hash'
import { matchesGlob } from '#core/imports/overrides'
import type { Source, SourceServices } from '#core/ports/source'
import { Secret } from '#core/secret'
import type { SourceKind } from '#core/tool'
import type { PolicyDefinition } from '#core/tools/define'

/**
 * An address as it may be pinned, shown and logged: values of its query are often keys, so digests stand for them,
 * which still tell one from another (rule 32).
 */
export function shownAddress(address: string): string {
  const url = URL.parse(address)
  if (url === null || url.search === '') return address
  const digested = [...url.searchParams].map(([name, value]): [string, string] => [
    name,
    value === '' ? '' : `sha256-${shortHash(value)}`,
  ])
  url.search = new URLSearchParams(digested).toString()
  return url.href
}

const KINDS = [
  'node-pack',
  'workflow',
  'mcp',
  'connector',
  'host-extension',
] as const satisfies readonly SourceKind[]

/** A source written as code: for upstreams that no other type speaks to. */
export const CUSTOM_OPTIONS = z.strictObject({
  type: z.literal('custom'),
  description: z.string().min(1).optional(),
  /** What its tools are catalogued as. */
  kind: z.enum(KINDS).default('connector'),
  open: z.custom<(key: string, services: SourceServices) => Source>((value) => typeof value === 'function', {
    error: 'expected a function that gives a source: (key, services) => ({ discover, invoke, … }).',
  }),
})

const TEXT = z.string().min(1)
const LOOPBACK = /^(?:localhost|.+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

const SECRET = TEXT.transform((text) => new Secret(text))

/** Members of the options of every server that is asked over HTTP. */
export const SERVER_OPTIONS = {
  url: TEXT.refine(
    (text) => {
      const url = URL.parse(text)
      if (url === null || !/^https?:$/.test(url.protocol)) return false
      return url.username === '' && url.password === '' && url.search === '' && url.hash === ''
    },
    { error: 'expected an absolute http or https URL without user, query and fragment.' },
  ),
  /** The key of this server at the other one. */
  apiKey: SECRET.optional(),
  /** A bearer token instead. */
  token: SECRET.optional(),
}

interface ServerCredentials {
  readonly url: string
  readonly apiKey?: Secret | undefined
  readonly token?: Secret | undefined
}

/** Keys in the clear could be anybody's, except on this machine (OTC-101). */
export function refuseOpenCredentials(
  { url, apiKey, token }: ServerCredentials,
  context: { addIssue(issue: { code: 'custom'; path: string[]; message: string }): void },
): void {
  const parsed = URL.parse(url)
  const isOpen = parsed !== null && parsed.protocol === 'http:' && !LOOPBACK.test(parsed.hostname)
  if (isOpen && (apiKey !== undefined || token !== undefined)) {
    const message = 'credentials are not sent over plain http; write the https address.'
    context.addIssue({ code: 'custom', path: ['url'], message })
  }
  if (apiKey !== undefined && token !== undefined) {
    context.addIssue({ code: 'custom', path: ['token'], message: 'write apiKey or token, not both.' })
  }
}

const LONGEST_RUN_MS = 24 * 3_600_000

/** What an operator may say about imported tools; where their traffic goes is the source's own statement (OWP-37). */
const POLICY = {
  safetyTier: z.enum(['pure', 'read', 'write']).optional(),
  replay: z.enum(['deterministic', 'idempotent', 'non-deterministic']).optional(),
  approval: z.enum(['never', 'conditional', 'always']).optional(),
  scopes: z.array(z.string().min(1)).optional(),
  tenants: z.array(z.string().min(1)).min(1).optional(),
  timeoutMs: z.int().min(1).max(LONGEST_RUN_MS).optional(),
  rerunWindowMs: z.int().min(0).optional(),
  costHint: z.enum(['low', 'medium', 'high']).optional(),
  latencyHint: z.enum(['low', 'medium', 'high']).optional(),
  cost: z.number().min(0).optional(),
}

/** Members of every imported source's options; names are native ones, `*` stands for any characters. */
export const COMMON_OPTIONS = {
  /** Shown to agents as the toolkit's description. */
  description: z.string().min(1).optional(),
  /** Whose tools they are: for callers of every other tenant there are none. What is said of single tools only narrows it. */
  tenants: z.array(z.string().min(1)).min(1).optional(),
  /** For all its tools, unless `tools` says otherwise. */
  policy: z.strictObject(POLICY).optional(),
  /** For single tools. */
  tools: z.record(z.string().min(1), z.strictObject(POLICY)).default({}),
  include: z.array(z.string().min(1)).optional(),
  exclude: z.array(z.string().min(1)).default([]),
}

/**
 * The same for programs that the operator chose and we cannot see into: what they reach is the operator's to say. Never
 * `safe-fetch`, for their traffic does not go through our guard (OWP-37).
 */
const TOLD_POLICY = { ...POLICY, egress: z.enum(['none', 'host-mediated', 'host-owned']).optional() }
export const COMMON_OPTIONS_WITH_EGRESS = {
  ...COMMON_OPTIONS,
  policy: z.strictObject(TOLD_POLICY).optional(),
  tools: z.record(z.string().min(1), z.strictObject(TOLD_POLICY)).default({}),
}

export type CommonOptions = z.output<z.ZodObject<typeof COMMON_OPTIONS>>

/** Whether the operator wants a tool at all; what is not is told as `leftOut` of a discovery. */
export function isWanted(
  nativeName: string,
  { include, exclude }: Pick<CommonOptions, 'include' | 'exclude'>,
): boolean {
  const matches = (pattern: string): boolean => matchesGlob(nativeName, pattern)
  return (include?.some(matches) ?? true) && !exclude.some(matches)
}

/** What the operator says about a tool, over what the source takes for granted. */
export function policyOf(
  nativeName: string,
  options: Pick<CommonOptions, 'policy' | 'tools' | 'tenants'>,
  defaults: PolicyDefinition,
): PolicyDefinition {
  const said = Object.hasOwn(options.tools, nativeName) ? options.tools[nativeName] : undefined
  const policy = { ...defaults, ...given(options.policy), ...given(said) }
  return options.tenants === undefined ? policy : { ...policy, tenants: within(options.tenants, policy) }
}

/** A source's tools stay with its tenants, whatever is said of one of them. */
function within(
  tenants: readonly string[],
  { tenants: said = tenants }: PolicyDefinition,
): readonly string[] {
  return said.filter((tenant) => tenants.includes(tenant))
}

/** Another server's tools: what they do is only known over there, so they write until somebody says otherwise (OWP-33). */
export function remotePolicyOf(
  nativeName: string,
  options: Pick<CommonOptions, 'policy' | 'tools' | 'tenants'>,
): PolicyDefinition {
  return policyOf(nativeName, options, { safetyTier: 'write', egress: 'safe-fetch' })
}

/** Without the members nobody wrote, so that they overrule nothing. */
function given(policy: z.output<z.ZodObject<typeof POLICY>> | undefined): PolicyDefinition {
  return Object.fromEntries(Object.entries(policy ?? {}).filter(([, value]) => value !== undefined))
}
