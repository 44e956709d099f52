import { fault } from '#core/errors'
import type { Tool } from '#core/tool'

/** A tool whose author wants a yes does not run without one: until approvals can be given, such calls are refused. */
export function checkApproval(tool: Tool): void {
  if (tool.policy.approval === 'never') return
  throw fault(
    'approval_required',
    `${tool.id} needs an approval before it may run, and this server cannot give one.`,
    {
      developerMessage: `policy.approval is '${tool.policy.approval}'. Set it to 'never' to let calls run without an approval.`,
    },
  )
}
