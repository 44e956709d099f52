import { fault } from '#core/errors'
import { closeState } from '#core/sessions/close-state'
import type { Tool } from '#core/tool'
import { WorkflowRun } from '#core/workflow/workflow-run'
import type { CallServices } from './call-services.ts'
import type { RunContext } from './run-context.ts'
import type { RunningCall } from './running-calls.ts'

/** Runs the tool on the state of its session, if it has any; a workflow with a way to call its steps. */
export function runTool(
  services: CallServices,
  running: RunningCall,
  { input, context }: { readonly input: unknown; readonly context: RunContext },
): unknown {
  const { tool, place } = running
  if (tool.workflow !== undefined) return new WorkflowRun(services, running, context).run(input)
  const isStateOwn = place.session?.isOwn === true && tool.session?.isOptional !== true
  if (isStateOwn) return runInOwnSession(tool, input, context)
  context.session = place.live?.state
  return tool.run(input, context)
}

/** State for this attempt alone; it is let go however the run ends, also when nobody waits for it any more. */
async function runInOwnSession(tool: Tool, input: unknown, context: RunContext): Promise<unknown> {
  const state = await tool.session?.open(context)
  context.session = state
  try {
    // Opening took too long: the caller was told that the call is over, so nothing may begin.
    if (context.isAborted) throw fault('cancelled', `${tool.name} was not started.`)
    return await tool.run(input, context)
  } finally {
    await closeState(tool, state, context)
  }
}
