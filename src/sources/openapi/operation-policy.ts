import type { PolicyDefinition } from '#core/tools/define'
import { type CommonOptions, policyOf } from '#sources/common/policy-options'
import type { Binding } from './binding.ts'
import type { Method } from './operation.ts'

/** By the meaning of HTTP's methods, not by anything the document says of them (OWP-33, RFC 9110 §9.2). */
const POLICIES = {
  get: { safetyTier: 'read', replay: 'idempotent' },
  head: { safetyTier: 'read', replay: 'idempotent' },
  options: { safetyTier: 'read', replay: 'idempotent' },
  put: { safetyTier: 'write', replay: 'idempotent' },
  delete: { safetyTier: 'write', replay: 'idempotent' },
  post: { safetyTier: 'write', replay: 'non-deterministic' },
  patch: { safetyTier: 'write', replay: 'non-deterministic' },
} as const satisfies Record<Method, PolicyDefinition>

/** What a binding does, and what the operator says about it. */
export function operationPolicy(
  nativeName: string,
  { method, idempotency }: Pick<Binding, 'method' | 'idempotency'>,
  options: Pick<CommonOptions, 'policy' | 'tools'>,
): PolicyDefinition {
  // OWP-93: with a key of ours the service itself refuses to act twice.
  const replay = idempotency === undefined ? {} : ({ replay: 'idempotent' } as const)
  return policyOf(nativeName, options, { ...POLICIES[method], ...replay, egress: 'safe-fetch' })
}
