import type { Reply } from './call-history.ts'
import type { Effect } from './effect-log.ts'
import type { Finding } from './finding.ts'
import { effectKeys } from './flow-steps.ts'

export interface FlowHistory {
  /** Answers before the last restart, by key; `undefined` if there was none. */
  readonly flows: ReadonlyMap<string, Reply | undefined>
  /** Answers after it. */
  readonly finished: ReadonlyMap<string, Reply>
  readonly settled: readonly string[]
  readonly effects: readonly Effect[]
}

export interface FlowVerdict {
  readonly flows: number
  /** Steps that were cut and settled, so that their workflow went on. */
  readonly settled: number
  readonly findings: readonly Finding[]
}

/** Rule 31: every workflow ends, each effect of each step happened exactly once, and the outcome contains them. */
export function judgeFlows({ flows, finished, settled, effects }: FlowHistory): FlowVerdict {
  const byKey = Map.groupBy(effects, ({ key }) => key)
  return {
    flows: flows.size,
    settled: settled.length,
    findings: [...flows].flatMap(([key, first]): Finding[] => {
      const last = finished.get(key)
      if (last?.success !== true) {
        return [{ breach: 'workflow not finished', key, detail: last?.body ?? 'no final check was made' }]
      }
      const nonces = effectKeys(key).map((step) => byKey.get(step)?.map(({ nonce }) => nonce) ?? [])
      const expected = nonces.flat().join(' ')
      const findings: Finding[] = []
      if (nonces.some((found) => found.length !== 1)) {
        findings.push({ breach: 'step not exactly once', key, detail: JSON.stringify(nonces) })
      }
      if (last.value !== expected) {
        findings.push({ breach: 'workflow ends differently', key, detail: `${last.value}, not ${expected}` })
      }
      if (first !== undefined && first.body !== last.body) {
        findings.push({ breach: 'outcome changed', key, detail: `${first.body} became ${last.body}` })
      }
      return findings
    }),
  }
}
