import { describe, expect, it } from 'vitest'
import type { CallHistory, FinalCheck, Kill, Reply, Sending } from './call-history.ts'
import type { EffectTool } from './effect-log.ts'
import type { Breach } from './finding.ts'
import { judgeHistory } from './judge-history.ts'
import type { DrivenSession } from './session-history.ts'

const KEY = 'call-0'

function success(nonce: string): Reply {
  const body = JSON.stringify({ result: { call_id: KEY, success: true, value: nonce } })
  return { ...FAILURE, success: true, body, value: nonce }
}

const FAILURE: Reply = {
  protocol: 'otc',
  status: 200,
  asksForRetry: false,
  errorCode: 'ambiguous',
  runId: undefined,
  success: false,
  canRetry: false,
  body: '{"result":{"success":false}}',
  value: undefined,
}
const RELEASED: Reply = { ...FAILURE, errorCode: 'tool_failed', canRetry: true }
const OUTCOME_UNKNOWN: Reply = { ...FAILURE, errorCode: 'outcome_unknown' }

function sent(reply: Reply | undefined, times: Partial<Sending> = {}): Sending {
  return { key: KEY, server: 0, sentAtMs: 10, endedAtMs: 20, reply, ...times }
}

interface Story {
  readonly tool?: EffectTool
  readonly session?: DrivenSession
  readonly sendings?: readonly Sending[]
  readonly nonces?: readonly string[]
  readonly looks?: readonly FinalCheck[]
  readonly killedAtMs?: number
}

/** One call that ran once, was acknowledged and is still stored, except for what the test changes. */
function history(story: Story): CallHistory {
  return {
    calls: new Map([
      [KEY, { tool: story.tool ?? 'Effect.Write@1.0.0', runId: undefined, session: story.session }],
    ]),
    sendings: story.sendings ?? [sent(success('n1'))],
    kills: [{ server: 0, atMs: story.killedAtMs ?? 15 }],
    effects: (story.nonces ?? ['n1']).map((nonce) => ({ key: KEY, nonce })),
    finalChecks: new Map([[KEY, story.looks ?? [{ reply: success('n1'), state: 'succeeded' }]]]),
  }
}

function breaches(story: Story): readonly Breach[] {
  return judgeHistory(history(story)).findings.map((finding) => finding.breach)
}

describe('judgeHistory', () => {
  it('finds nothing in a call that ran once and kept its outcome', () => {
    expect(judgeHistory(history({}))).toEqual({
      calls: 1,
      acknowledged: 1,
      sendings: 1,
      kills: 1,
      effects: 1,
      ambiguous: 0,
      sessionLost: 0,
      findings: [],
    })
  })

  it('finds a second effect of a tool that is not idempotent', () => {
    expect(breaches({ nonces: ['n1', 'n2'] })).toEqual(['effect twice'])
    expect(breaches({ nonces: ['n1', 'n2'], tool: 'Effect.Flaky@1.0.0' })).toEqual(['effect twice'])
  })

  it('allows a second effect of an idempotent tool', () => {
    expect(breaches({ nonces: ['n1', 'n2'], tool: 'Effect.Idempotent@1.0.0' })).toEqual([])
  })

  it('finds an outcome that differs after the restart', () => {
    const looks = [{ reply: success('n2'), state: 'succeeded' }]
    const tool = 'Effect.Idempotent@1.0.0'
    expect(breaches({ looks, tool, nonces: ['n1', 'n2'] })).toEqual(['outcome changed'])
  })

  it('finds two callers with different outcomes', () => {
    const sendings = [sent(success('n1')), sent({ ...success('n1'), body: '{"result":{}}' })]
    expect(breaches({ sendings })).toEqual(['outcome changed'])
  })

  it('finds an outcome that only one of two servers still knows', () => {
    const looks = [
      { reply: success('n1'), state: 'succeeded' },
      { reply: OUTCOME_UNKNOWN, state: 'running' },
    ]
    expect(breaches({ looks })).toEqual(['outcome lost', 'not final'])
  })

  it('finds an acknowledged outcome that was lost', () => {
    const looks = [{ reply: RELEASED, state: 'released' }]
    expect(breaches({ looks })).toEqual(['outcome lost'])
  })

  it('finds a call that is no longer stored', () => {
    expect(breaches({ looks: [{ reply: success('n1'), state: undefined }] })).toEqual(['not final'])
    expect(breaches({ looks: [] })).toEqual(['not final'])
  })

  it('finds a call that still runs', () => {
    expect(breaches({ looks: [{ reply: success('n1'), state: 'running' }] })).toEqual(['not final'])
  })

  it('finds a success whose effect never happened', () => {
    expect(breaches({ nonces: [] })).toEqual(['success without effect'])
  })

  it('accepts an ambiguous call that was in flight at a kill', () => {
    const looks = [{ reply: FAILURE, state: 'ambiguous' }]
    expect(breaches({ sendings: [sent(undefined)], looks })).toEqual([])
    expect(breaches({ sendings: [sent(undefined)], looks, killedAtMs: 25 })).toEqual([])
  })

  it('finds an ambiguous call that no kill explains', () => {
    const looks = [{ reply: FAILURE, state: 'ambiguous' }]
    expect(breaches({ sendings: [sent(undefined)], looks, killedAtMs: 5 })).toEqual([
      'ambiguous without a kill',
    ])
    expect(breaches({ sendings: [sent(undefined, { server: 1 })], looks })).toEqual([
      'ambiguous without a kill',
    ])
    expect(breaches({ sendings: [sent(FAILURE)], looks, killedAtMs: 25 })).toEqual([
      'ambiguous without a kill',
    ])
  })

  it('finds an ambiguous call of an idempotent tool, which should have run again', () => {
    const looks = [{ reply: FAILURE, state: 'ambiguous' }]
    const tool = 'Effect.Idempotent@1.0.0'
    expect(breaches({ sendings: [sent(undefined)], looks, tool })).toEqual(['ambiguous though repeatable'])
  })

  it('accepts an ambiguous call of an idempotent tool whose every attempt was cut', () => {
    const looks = [{ reply: FAILURE, state: 'ambiguous' }]
    const sendings = [10, 20, 30].map((sentAtMs) => sent(undefined, { sentAtMs, endedAtMs: sentAtMs + 5 }))
    const kills = [11, 21, 31].map((atMs) => ({ server: 0, atMs }))
    const story = history({ sendings, looks, tool: 'Effect.Idempotent@1.0.0' })
    expect(judgeHistory({ ...story, kills }).findings).toEqual([])
    expect(judgeHistory({ ...story, kills: kills.slice(0, 2) }).findings).toHaveLength(1)
  })

  it('does not treat a released failure or outcome_unknown as final', () => {
    const sendings = [sent(RELEASED), sent(OUTCOME_UNKNOWN), sent(success('n1'))]
    expect(breaches({ sendings })).toEqual([])
  })

  it('finds a status that is not allowed for any call', () => {
    const refused = { ...FAILURE, status: 500 }
    expect(breaches({ sendings: [sent(refused), sent(success('n1'))] })).toEqual(['unexpected reply'])
    const waiting = { ...FAILURE, status: 400, asksForRetry: true }
    expect(breaches({ sendings: [sent(waiting), sent(success('n1'))] })).toEqual([])
  })

  it('accepts a call cut inside a session only as lost (rule 30)', () => {
    const tool = 'Effect.Counter@1.0.0'
    const lost = { reply: { ...FAILURE, errorCode: 'session_lost' }, state: 'failed' }
    expect(breaches({ tool, sendings: [sent(undefined)], looks: [lost] })).toEqual([])
    expect(breaches({ tool, sendings: [sent(undefined)], looks: [lost], killedAtMs: 5 })).toEqual([
      'ambiguous without a kill',
    ])
    const looks = [{ reply: FAILURE, state: 'ambiguous' }]
    expect(breaches({ tool, sendings: [sent(undefined)], looks })).toEqual(['ambiguous in a session'])
    expect(breaches({ sendings: [sent(undefined)], looks: [lost] })).toEqual(['ambiguous in a session'])
  })

  it('accepts the refusal of a call only after its session had to end', () => {
    const tool = 'Effect.Counter@1.0.0'
    const gone = { ...FAILURE, status: 400, errorCode: 'session_not_found' }
    const looks = [{ reply: gone, state: undefined }]
    const session = {
      sessionId: 's1',
      runId: 'r1',
      server: 0,
      openSentAtMs: 1,
      openedAtMs: 2,
      closeSentAtMs: undefined,
      closedAtMs: undefined,
      closeStatus: undefined,
    }
    const refused = { tool, session, sendings: [sent(gone)], looks, nonces: [] } as const
    expect(breaches(refused)).toEqual([])
    expect(breaches({ ...refused, killedAtMs: 25 })).toEqual(['unexpected reply'])
    expect(breaches({ ...refused, session: { ...session, server: 1 } })).toEqual([
      'unexpected reply',
      'unexpected reply',
      'not final',
    ])
    expect(breaches({ ...refused, session: { ...session, server: 1, closeSentAtMs: 12 } })).toEqual([])
  })

  it('finds an outcome that differs over another protocol (rule 5)', () => {
    const overMcp = { ...success('n1'), protocol: 'mcp', body: '{"jsonrpc":"2.0"}' } as const
    expect(breaches({ sendings: [sent(success('n1')), sent(overMcp)] })).toEqual([])
    const other = { ...overMcp, value: 'n2' }
    expect(breaches({ sendings: [sent(success('n1')), sent(other)], nonces: ['n1'] })).toContain(
      'outcome changed',
    )
    const failed = { ...overMcp, success: false, errorCode: 'cancelled' }
    expect(breaches({ sendings: [sent(success('n1')), sent(failed)] })).toEqual(['outcome changed'])
    expect(breaches({ sendings: [sent({ ...failed, canRetry: true }), sent(success('n1'))] })).toEqual([])
  })

  it('accepts ambiguity after a pause that may have cost the lease, and not after a restart', () => {
    const looks = [{ reply: FAILURE, state: 'ambiguous' }]
    const story = history({ sendings: [sent(undefined)], looks })
    const judge = (kill: Partial<Kill>) =>
      judgeHistory({ ...story, kills: [{ server: 0, atMs: 5, ...kill }] }).findings.map(
        ({ breach }) => breach,
      )
    expect(judge({ kind: 'pause', untilMs: 12 })).toEqual([])
    expect(judge({ kind: 'pause', untilMs: 9 })).toEqual(['ambiguous without a kill'])
    expect(judge({ kind: 'restart', atMs: 12, untilMs: 30 })).toEqual(['ambiguous without a kill'])
  })

  it('finds a call that still waits for approval, and accepts one that was refused', () => {
    const tool = 'Effect.Approved@1.0.0'
    const parked = { ...FAILURE, status: 400, errorCode: 'approval_required' }
    const nothing = { tool, sendings: [sent(parked)], nonces: [] } as const
    expect(breaches({ ...nothing, looks: [{ reply: parked, state: 'parked' }] })).toEqual(['not final'])
    const refused = { ...FAILURE, status: 400, errorCode: 'approval_rejected' }
    expect(breaches({ ...nothing, looks: [{ reply: refused, state: 'failed' }] })).toEqual([])
    const looks = [{ reply: success('n1'), state: 'succeeded' }]
    const resumed = { ...nothing, sendings: [sent(parked), sent(refused)], nonces: ['n1'], looks }
    expect(breaches(resumed)).toEqual(['outcome changed'])
  })
})
