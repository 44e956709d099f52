import type { Logger } from '#core/ports/logger'
import { within } from '#core/sessions/within'
import type { Approval } from '#core/tool'
import type { ApprovalFacts, ApprovalRules } from './approval-rules.ts'

const LONGEST_MS = 5_000

/** Rule 21: whatever is not certainly a "no need" means that a yes is needed. */
export async function needsApproval(
  policy: Approval,
  { when }: Pick<ApprovalRules, 'when'>,
  asked: { readonly facts: () => ApprovalFacts; readonly log: Logger },
): Promise<boolean> {
  if (policy !== 'conditional') return policy === 'always'
  if (when === undefined) return true
  try {
    return (await within(LONGEST_MS, () => when(asked.facts()))) !== false
  } catch (error) {
    asked.log.error({ err: error }, 'approvals.when failed, so the call needs an approval')
    return true
  }
}
