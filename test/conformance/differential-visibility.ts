import { type Batch, type CallPlan, visibleTool } from './differential-calls.ts'
import { send } from './differential-http.ts'
import type { Played } from './differential-played.ts'
import { Disagreement } from './differential-report.ts'
import { apiKeyOf, type Stage } from './differential-stage.ts'

/** The lane whose principals read the catalog. */
const OPENWOP_WAY = 'oxp-1.0'

/** Rule 2: a caller can call exactly the tools visible to it, by the generated scopes and in openwop's catalog. */
export async function compareSight(written: Played, stage: Stage, batch: Batch): Promise<void> {
  const looks = new Map<string, number>()
  for (const [index, call] of batch.calls.entries()) {
    const reported = written.answers[index]?.observation
    const isVisible = visibleTool(batch, call) !== undefined
    // A used key and an unreadable request are answered before the tool is looked up.
    const isEarlier = reported?.code === 'key_conflict' || reported?.isUnread === true
    const isFound = reported?.decision !== 'hidden'
    if (!isEarlier && isFound !== isVisible) {
      const found = { path: '/decision', expected: isVisible, actual: isFound }
      throw new Disagreement(batch, index, { way: 'a call', reference: 'the scopes', found })
    }
    const expected = visibleTool(batch, { ...call, suffix: '' }) === undefined ? 404 : 200
    const name = `${call.caller} ${call.base}`
    const actual = looks.get(name) ?? (await look(stage, batch, call))
    looks.set(name, actual)
    if (actual === expected) continue
    const found = { path: '/v1/tools', expected, actual }
    throw new Disagreement(batch, index, { way: 'openwop', reference: 'the scopes', found })
  }
}

async function look({ url }: Stage, { tools }: Batch, { caller, base }: CallPlan): Promise<number> {
  const id = tools.find((tool) => tool.base === base)?.catalogId ?? `openwop:${base}`
  const headers = { authorization: `Bearer ${apiKeyOf(OPENWOP_WAY, caller)}` }
  const { status } = await send(url, { path: `/v1/tools/${encodeURIComponent(id)}`, headers })
  return status
}
