import type { Tool } from '#core/tool'
import type { SessionContext } from './session-context.ts'
import { within } from './within.ts'

const CLOSE_LIMIT_MS = 10_000

/** Lets state go. What goes wrong is the author's to know: nothing that was done on the state is undone by it. */
export async function closeState(tool: Tool, state: unknown, context: SessionContext): Promise<void> {
  try {
    await within(CLOSE_LIMIT_MS, () => tool.session?.close(state, context))
  } catch (error) {
    context.log.error({ err: error }, 'the state of a session could not be closed')
  }
}
