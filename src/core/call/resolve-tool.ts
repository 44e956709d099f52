import { fault, type ToolError } from '#core/errors'
import type { CallRecord } from '#core/ports/store'
import type { Tool } from '#core/tool'
import { writeToolRef } from '#core/tool-id'
import type { CallServices } from './call-services.ts'
import type { IdentifiedCall } from './identified-call.ts'
import { suggestTool } from './suggest-tool.ts'

/**
 * Finds the tool in the principal's own catalog, so that hidden and unknown take the same path (rule 2). A call
 * that runs again uses exactly the version and definition it was claimed with (rule 5).
 */
export function resolveTool(
  services: CallServices,
  call: IdentifiedCall,
  seen: CallRecord | undefined,
): Tool {
  const catalog = services.registry.catalogFor(call.principal)
  const tool = seen === undefined ? catalog.resolve(call.request.tool) : catalog.get(seen.tool)
  if (seen === undefined) {
    if (tool === undefined) throw toolNotFound(call, suggestTool(catalog, call.request.tool))
    // What the workflow's claim pins, and nothing else (rule 31).
    if (call.step !== undefined && call.step.definitionHash !== tool.definitionHash) throw gone(tool.id)
    return tool
  }
  if (tool?.definitionHash === seen.definitionHash) return tool
  if (tool === undefined) throw gone(seen.tool)
  // A workflow that is put away is parked too, but its steps are not asked about in its name.
  const isAsked = seen.state === 'parked' && seen.waitsFor === undefined
  throw isAsked ? changedSinceAsked(seen.tool) : changedSinceBegun(seen)
}

/** A yes is for the definition that was asked about, and that one will not be served again (rule 21). */
function changedSinceAsked(id: string): ToolError {
  return fault(
    'approval_rejected',
    `The definition of ${id} changed since this call was asked about, so no approval is for it any more. Nothing was run. Make a new call, with a new call id.`,
  )
}

/** What began with another definition goes on with that one or not at all (rule 5); an operator may serve it again. */
function changedSinceBegun({ tool, resumable }: CallRecord): ToolError {
  const kept = resumable ? ' Its finished steps are kept.' : ''
  return fault(
    'not_ready',
    `The definition of ${tool} changed since this call began, and a call goes on only with the one it began with.${kept} Repeat it once that definition is served again, or make a new call, with a new call id, which begins anew.`,
    { retryAfterMs: 5_000 },
  )
}

function gone(id: string): ToolError {
  return fault(
    'not_ready',
    `${id}, which this call began with, is not served here right now. Try again later.`,
    {
      retryAfterMs: 5_000,
    },
  )
}

function toolNotFound({ request }: IdentifiedCall, nextStep: string | undefined): ToolError {
  const message = `Tool '${writeToolRef(request.tool)}' was not found.`
  if (nextStep !== undefined) return fault('tool_not_found', `${message} ${nextStep}`, { nextStep })
  return fault('tool_not_found', `${message} List the tools to see what is served.`)
}
