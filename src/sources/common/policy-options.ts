import { z } from 'zod'
import { matchesGlob } from '#core/imports/overrides'
import type { PolicyDefinition } from '#core/tools/define'

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
