import { z } from 'zod'
import { fault } from '#kernel/base/errors'
import { shortHash } from '#kernel/base/hash'
import { operatorNames } from '#kernel/base/ids'
import { defined, type JsonObject } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { POLICY_FIELDS, type PolicyDefinition } from '#kernel/tool/tool'
import { matchesGlob } from '#kernel/tool/toolsets'

/**
 * Options and policy rules that several source types share.
 * Invariant: the operator's settings override those of a source or its upstream.
 */

/**
 * An address in the form in which it may be pinned, shown and logged. Query values are often keys, so they are replaced by digests,
 * which still distinguish different values (rule 32).
 */
export function addressWithoutValues(address: string): string {
  const url = URL.parse(address)
  if (url === null || url.search === '') return address
  const digested = [...url.searchParams].map(([name, value]): [string, string] => [
    name,
    value === '' ? '' : `sha256-${shortHash(value)}`,
  ])
  url.search = new URLSearchParams(digested).toString()
  return url.href
}

const TEXT = z.string().min(1)
const LOOPBACK = /^(?:localhost|.+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

export const SECRET = TEXT.transform((text) => new Secret(text))

/** Options of every source that is an HTTP server. */
export const SERVER_OPTIONS = {
  url: TEXT.refine(
    (text) => {
      const url = URL.parse(text)
      if (url === null || !/^https?:$/.test(url.protocol)) return false
      return url.username === '' && url.password === '' && url.search === '' && url.hash === ''
    },
    { error: 'expected an absolute http or https URL without user, query and fragment.' },
  ),
  /** This server's API key for the other server. */
  apiKey: SECRET.optional(),
  /** A bearer token, instead of `apiKey`. */
  token: SECRET.optional(),
}

export type ServerCredentials = z.output<z.ZodObject<typeof SERVER_OPTIONS>>

/** Refuses credentials for an address without encryption, except on this machine (OTC-101). */
export function refuseOpenCredentials(
  { url, apiKey, token }: ServerCredentials,
  context: { addIssue(issue: { code: 'custom'; path: string[]; message: string }): void },
): void {
  if (isUnencrypted(url) && (apiKey !== undefined || token !== undefined)) {
    const message = 'credentials are not sent over plain http; write the https address.'
    context.addIssue({ code: 'custom', path: ['url'], message })
  }
  if (apiKey !== undefined && token !== undefined) {
    context.addIssue({ code: 'custom', path: ['token'], message: 'write apiKey or token, not both.' })
  }
}

/** True if requests to the address leave this machine without encryption. */
export function isUnencrypted(address: string): boolean {
  const url = URL.parse(address)
  return url?.protocol === 'http:' && !LOOPBACK.test(url.hostname)
}

const TEXTS = z.array(TEXT)

/** A part of the catalog ids of host extensions, `x-host-<vendor>-…` (openwop §7.1). */
export const HOST_LABEL = z.string().regex(/^[a-z][a-z0-9-]{0,63}$/, {
  error: 'expected lower-case letters, digits and "-", beginning with a letter, for example "disk-usage".',
})

/** A tool's policy, with every field of `POLICY_FIELDS`. */
export const POLICY_SHAPE = {
  safetyTier: z.enum(POLICY_FIELDS.safetyTier.choices),
  replay: z.enum(POLICY_FIELDS.replay.choices),
  egress: z.enum(POLICY_FIELDS.egress.choices),
  approval: z.enum(POLICY_FIELDS.approval.choices),
  scopes: z
    .array(TEXT.regex(POLICY_FIELDS.scopes.each, { error: 'expected scopes without spaces.' }))
    .min(POLICY_FIELDS.scopes.minItems),
  tenants: TEXTS.min(POLICY_FIELDS.tenants.minItems),
  timeoutMs: z.int().min(POLICY_FIELDS.timeoutMs.min).max(POLICY_FIELDS.timeoutMs.max),
  rerunWindowMs: z.int().min(POLICY_FIELDS.rerunWindowMs.min).max(POLICY_FIELDS.rerunWindowMs.max),
  costHint: z.enum(POLICY_FIELDS.costHint.choices),
  latencyHint: z.enum(POLICY_FIELDS.latencyHint.choices),
  cost: z.number().min(POLICY_FIELDS.cost.min).max(POLICY_FIELDS.cost.max),
  modelBytes: z.int().min(POLICY_FIELDS.modelBytes.min).max(POLICY_FIELDS.modelBytes.max),
  project: TEXTS.min(POLICY_FIELDS.project.minItems),
  modelFormat: z.enum(POLICY_FIELDS.modelFormat.choices),
  identity: TEXTS.min(POLICY_FIELDS.identity.minItems),
} satisfies { readonly [Name in keyof PolicyDefinition]-?: z.ZodType<NonNullable<PolicyDefinition[Name]>> }

/** The policy that an operator may give to tools whose traffic bypasses the guarded fetch, so never `safe-fetch` (OWP-37). */
const PROGRAM_POLICY = z
  .strictObject({ ...POLICY_SHAPE, egress: POLICY_SHAPE.egress.exclude(['safe-fetch']) })
  .partial()

/** The policy that an operator may give to tools whose source determines the egress (OWP-37). */
const OPERATOR_POLICY = PROGRAM_POLICY.omit({ egress: true })

/** Options of every source. Names are native names, in which `*` matches any characters. */
export const COMMON_OPTIONS = {
  /** Shown to agents as the toolkit's description. */
  description: TEXT.optional(),
  /** The tenants that see the tools. Options for single tools can only narrow this list. */
  tenants: POLICY_SHAPE.tenants.optional(),
  /** Part of the catalog ids of its tools of tier `exec`, `x-host-<vendor>-<toolkit>-<tool>`. Default `openwop.vendor`. */
  vendor: HOST_LABEL.optional(),
  /** Policy for all its tools, unless `tools` overrides it. */
  policy: OPERATOR_POLICY.optional(),
  /** Policies for single tools, by name. */
  tools: z.record(TEXT, OPERATOR_POLICY).default({}),
  include: TEXTS.optional(),
  exclude: TEXTS.default([]),
}

export const COMMON_OPTIONS_WITH_EGRESS = {
  ...COMMON_OPTIONS,
  policy: PROGRAM_POLICY.optional(),
  tools: z.record(TEXT, PROGRAM_POLICY).default({}),
}

export type CommonOptions = z.output<z.ZodObject<typeof COMMON_OPTIONS>>

/** False for a tool that the operator's filters exclude; a discovery reports it in `leftOut`. */
export function isWanted(
  nativeName: string,
  { include, exclude }: Pick<CommonOptions, 'include' | 'exclude'>,
): boolean {
  const names = operatorNames(nativeName)
  const matches = (pattern: string): boolean => names.some((name) => matchesGlob(name, pattern))
  return (include?.some(matches) ?? true) && !exclude.some(matches)
}

/** The policy members that the operator wrote for a tool. An entry for one version overrides the entry for all versions, and both override the source's policy. */
export function writtenPolicy(
  nativeName: string,
  { policy, tools }: Pick<CommonOptions, 'policy' | 'tools'>,
): PolicyDefinition {
  const own = operatorNames(nativeName).filter((name) => Object.hasOwn(tools, name))
  // The entry for one version comes last, so that it overrides the others.
  const written = [policy, ...own.toReversed().map((name) => tools[name])]
  // Absent members override nothing.
  return Object.assign({}, ...written.map((each) => defined(each ?? {})))
}

/** The operator's policy for a tool, which overrides the source's defaults. */
export function policyOf(
  nativeName: string,
  options: Pick<CommonOptions, 'policy' | 'tools' | 'tenants'>,
  defaults: PolicyDefinition,
): PolicyDefinition {
  const written = writtenPolicy(nativeName, options)
  const isExec = (written.safetyTier ?? defaults.safetyTier) === 'exec'
  const policy: PolicyDefinition = { ...defaults, ...(isExec ? execDefaults(defaults) : {}), ...written }
  const { tenants } = options
  if (tenants === undefined) return policy
  // A tool's tenants are limited to those of its source.
  return { ...policy, tenants: (policy.tenants ?? tenants).filter((tenant) => tenants.includes(tenant)) }
}

/** Tools of tier `exec` are not confined, so each call needs an approval, unless the operator or a source that declares this tier sets another rule. */
function execDefaults({ safetyTier, approval }: PolicyDefinition): PolicyDefinition {
  const declared = safetyTier === 'exec' ? approval : undefined
  return { egress: 'host-owned', approval: declared ?? 'always', replay: 'non-deterministic' }
}

/** Tools of another server have unknown effects, so they are `write` unless the operator decides otherwise (OWP-33). */
export function remotePolicyOf(
  nativeName: string,
  options: Pick<CommonOptions, 'policy' | 'tools' | 'tenants'>,
): PolicyDefinition {
  return policyOf(nativeName, options, { safetyTier: 'write', egress: 'safe-fetch' })
}

/** Parses an accepted binding from the store; `what` names its tool. */
export function readBinding<Binding>(schema: z.ZodType<Binding>, what: string, binding: JsonObject): Binding {
  const parsed = schema.safeParse(binding)
  if (parsed.success) return parsed.data
  throw fault('upstream_failed', `The accepted definition of ${what} cannot be used.`, {
    developerMessage: z.prettifyError(parsed.error),
  })
}
