import type { Elicit, ElicitationAnswer, ElicitationMode } from '#core/runtime'
import { type KeyedQuestion, mayAsk } from './codec-question.ts'
import type { ClientCapabilities } from './wire.ts'

/** What a run asked although its client had not declared it (MCP-36). */
export interface CapabilityWatch {
  missing: ElicitationMode | undefined
}

export type AskKeyed = (question: KeyedQuestion) => Promise<ElicitationAnswer>

const DECLINED: ElicitationAnswer = { action: 'decline' }

/** Asks only what was declared; a tool that can go on without goes on declined (T-11). Questions without a key are numbered. */
export function askGuard(ask: AskKeyed, capabilities: ClientCapabilities, watch: CapabilityWatch): Elicit {
  let asked = 0
  return async (question) => {
    asked += 1
    if (mayAsk(question, capabilities))
      return await ask({ ...question, key: question.key ?? `question_${asked}` })
    watch.missing = question.mode
    return DECLINED
  }
}

/** For clients that declared nothing. */
export const refuseToAsk: AskKeyed = async () => DECLINED
