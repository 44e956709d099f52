import type { ApprovalRecord, ApprovalState } from '#core/ports/approval-store'
import { escapeHtml, renderPage } from '#protocols/html-page'

/** What a person is told about each state; also on the page behind an approver's link. */
export const STATE_TEXT = {
  pending: 'This call waits for an approval. Nothing has been run.',
  granted: 'This call has been approved. It runs when its caller repeats it.',
  used: 'This call was approved and has been run.',
  rejected: 'This call was not approved. It will not run.',
  expired: 'Nobody approved this call in time, or the approval was not used in time. It will not run.',
  cancelled: 'This call was cancelled before it was decided. It will not run.',
} as const satisfies Record<ApprovalState, string>

/** What is told instead of a state that can lead nowhere any more. */
export const STALE_TEXT =
  'The definition of its tool changed since this call was asked about, so it will not run. Make a new call.'

/** What whoever waits for a yes may see: not the input, because the id is no credential. */
export function approvalPage(approval: ApprovalRecord, state: ApprovalState, isStale: boolean): string {
  const { id, tool, expiresAtMs, quorum, decisions } = approval
  const until = new Date(expiresAtMs).toISOString()
  const progress = quorum > 1 ? `<dt>Approvers</dt><dd>${decisions.length} of ${quorum}</dd>` : ''
  return renderPage(
    'Approval',
    `<p>${isStale ? STALE_TEXT : STATE_TEXT[state]}</p>
<dl><dt>Tool</dt><dd>${escapeHtml(tool)}</dd><dt>Open until</dt><dd>${until}</dd>${progress}</dl>
${state === 'pending' && !isStale ? howToDecide(id) : ''}`,
  )
}

export function unknownApprovalPage(): string {
  return renderPage('Unknown approval', '<p>There is no such approval, or it has been forgotten.</p>')
}

/** A person without a link of its own decides with a credential. */
export function howToDecide(id: string): string {
  const shown = escapeHtml(id)
  return `<p>An operator decides with:</p>
<pre>collet approvals show ${shown}
collet approvals approve ${shown}
collet approvals reject ${shown} --reason TEXT</pre>`
}
