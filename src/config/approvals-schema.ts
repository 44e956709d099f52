import { z } from 'zod'
import { type ApprovalPredicate, type ApprovalRules, DEFAULT_APPROVAL_RULES } from '#core/approvals/approvals'
import { shortHash } from '#core/hash'
import { Secret } from '#core/secret'

/** The longest a question may stay open: 30 days. */
const LONGEST_MS = 30 * 24 * 3_600_000
const SHORTEST_SECRET = 16
const MOST_WEBHOOKS = 20

interface Words {
  readonly closed: <Shape extends z.ZodRawShape>(shape: Shape) => z.ZodObject<Shape>
  readonly url: z.ZodType<string, string>
  readonly scope: z.ZodType<string, string>
  readonly name: z.ZodType<string, string>
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** Whether nobody on the way can read what is sent there. */
function isPrivate(text: string): boolean {
  const url = URL.parse(text)
  return url?.protocol === 'https:' || LOOPBACK.test(url?.hostname ?? '')
}

/** The `approvals` key, in the words of the other keys. */
export function approvalsSchema({ closed, url, scope, name }: Words) {
  const terms = {
    expiresAfterMs: z.int().min(1_000).max(LONGEST_MS).optional(),
    quorum: z.int().min(1).max(100).optional(),
    requiredScope: scope.optional(),
    selfApproval: z.boolean().optional(),
    overrideBypassesQuorum: z.boolean().optional(),
  }
  const webhook = closed({
    url,
    secret: z
      .string()
      .min(SHORTEST_SECRET, { error: `must have at least ${SHORTEST_SECRET} characters.` })
      .transform((text) => new Secret(text)),
    approver: name.optional(),
  }).refine(({ url: text, approver }) => approver === undefined || isPrivate(text), {
    path: ['url'],
    error: 'must be https, or http on loopback: its messages carry links that decide for `approver`.',
  })
  const when = z
    .custom<ApprovalPredicate>((value) => typeof value === 'function', {
      error: 'expected a function.',
    })
    .optional()
  return closed({
    ...terms,
    when,
    perTool: z.record(z.string().min(1), closed({ ...terms, when })).default({}),
    webhooks: z.array(webhook).max(MOST_WEBHOOKS).default([]),
    mostParkedPerPrincipal: z.int().min(1).default(DEFAULT_APPROVAL_RULES.mostParkedPerPrincipal),
  }).prefault({})
}

type ParsedApprovals = z.output<ReturnType<typeof approvalsSchema>>

/** With every default filled in. */
export function toApprovalRules(parsed: ParsedApprovals): ApprovalRules {
  const { when, perTool, webhooks, mostParkedPerPrincipal, ...terms } = parsed
  return {
    ...DEFAULT_APPROVAL_RULES,
    ...given(terms),
    when,
    whenPerTool: new Map(
      Object.entries(perTool).flatMap(([tool, own]) => (own.when === undefined ? [] : [[tool, own.when]])),
    ),
    perTool: new Map(Object.entries(perTool).map(([tool, own]) => [tool, given(own)])),
    webhooks: webhooks.map(({ url, secret, approver }) => ({
      target: shortHash(JSON.stringify([url, approver ?? null])),
      url,
      secret,
      approver,
    })),
    mostParkedPerPrincipal,
  }
}

/** Without members that were left out, so that they do not hide defaults. */
function given<Terms extends object>(terms: Terms) {
  const { expiresAfterMs, quorum, requiredScope, selfApproval, overrideBypassesQuorum }: OptionalTerms = terms
  return {
    ...(expiresAfterMs === undefined ? {} : { expiresAfterMs }),
    ...(quorum === undefined ? {} : { quorum }),
    ...(requiredScope === undefined ? {} : { requiredScope }),
    ...(selfApproval === undefined ? {} : { selfApproval }),
    ...(overrideBypassesQuorum === undefined ? {} : { overrideBypassesQuorum }),
  }
}

interface OptionalTerms {
  readonly expiresAfterMs?: number | undefined
  readonly quorum?: number | undefined
  readonly requiredScope?: string | undefined
  readonly selfApproval?: boolean | undefined
  readonly overrideBypassesQuorum?: boolean | undefined
}
