import { fault } from '#core/errors'
import { closeState } from '#core/sessions/close-state'
import type { Tool } from '#core/tool'
import type { RunContext } from './run-context.ts'
import type { RunningCall } from './running-calls.ts'

/** Runs the tool on the state of its session, if it has any. */
export function runTool({ tool, place }: RunningCall, input: unknown, context: RunContext): unknown {
  if (place.session?.isOwn === true) return runInOwnSession(tool, input, context)
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
