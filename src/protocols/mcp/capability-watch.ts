import type { AskCaller, QuestionKind } from '#core/caller-question'
import { fault } from '#core/errors'
import { mayAsk } from './codec-question.ts'
import type { ClientCapabilities } from './wire.ts'

/** What a run insisted on asking although its client had not declared it (MCP-36). */
export interface CapabilityWatch {
  missing: QuestionKind | undefined
}

/** Asks only what was declared; a tool that can go on without catches the refusal (T-11). */
export function askGuard(
  ask: AskCaller,
  capabilities: ClientCapabilities,
  watch: CapabilityWatch,
): AskCaller {
  return async (question) => {
    if (mayAsk(question, capabilities)) return await ask(question)
    watch.missing = question.kind
    throw fault('tool_failed', 'The tool has to ask its caller something this client cannot be asked.')
  }
}

/** For clients that declared nothing. */
export const refuseToAsk: AskCaller = async () => ({ action: 'cancel' })
