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
  throw tool !== undefined && seen.state === 'parked' ? changedSinceAsked(seen.tool) : gone(seen.tool)
}

/** A yes is for the definition that was asked about, and that one will not be served again (rule 21). */
function changedSinceAsked(id: string): ToolError {
  return fault(
    'approval_rejected',
    `The definition of ${id} changed since this call was asked about, so no approval is for it any more. Nothing was run. Make a new call, with a new call id.`,
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
