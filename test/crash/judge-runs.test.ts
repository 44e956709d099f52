import { describe, expect, it } from 'vitest'
import type { Reply } from './call-history.ts'
import type { Breach } from './finding.ts'
import { judgeRuns } from './judge-runs.ts'
import type { Reading, SeenEvent, StoredEvent } from './run-history.ts'

const RUN = 'run-0'
const NAMES = { called: 'agent.toolCalled', returned: 'agent.toolReturned' } as const

function seen(type: keyof typeof NAMES, sequence: number, callId = 'call-0'): SeenEvent {
  return { sequence, type: NAMES[type], runKey: 'k', callId, sessionId: undefined, ok: type === 'returned' }
}

function kept(type: keyof typeof NAMES, sequence: number, attempt = 1): StoredEvent {
  const nothing = { sessionId: undefined, code: undefined, outcome: undefined }
  return { run: 'k', sequence, type, record: 'c', attempt, ...nothing }
}

const SUCCESS: Reply = {
  protocol: 'otc',
  status: 200,
  asksForRetry: false,
  errorCode: undefined,
  runId: RUN,
  success: true,
  canRetry: false,
  body: '{}',
  value: undefined,
}

interface Story {
  readonly polled?: readonly SeenEvent[]
  readonly stored?: readonly StoredEvent[]
  readonly reading?: Partial<Reading>
  readonly reply?: Reply
}

/** One call in one run with a reader, except for what the test changes. */
function breaches(story: Story): readonly Breach[] {
  const polled = story.polled ?? [seen('called', 0), seen('returned', 1)]
  const stored = story.stored ?? [kept('called', 0), kept('returned', 1)]
  const { findings } = judgeRuns({
    polled: new Map([[RUN, polled]]),
    readings: [{ runId: RUN, events: polled, resumes: 1, ended: true, ...story.reading }],
    stored: { events: new Map([['k', stored]]), sessions: [], journal: [] },
    finalChecks: new Map([['call-0', [{ reply: story.reply ?? SUCCESS, state: 'succeeded' }]]]),
  })
  return findings.map(({ breach }) => breach)
}

describe('judgeRuns', () => {
  it('finds nothing in a run in which every reader sees each call once', () => {
    expect(breaches({})).toEqual([])
  })

  it('finds a gap and a repeat in a sequence (OWP-99)', () => {
    for (const second of [0, 2]) {
      const polled = [seen('called', 0), seen('returned', second)]
      const stored = [kept('called', 0), kept('returned', second)]
      expect(breaches({ polled, stored })).toEqual(['sequence broken', 'sequence broken'])
    }
  })

  it('finds a call without a return, and one with two', () => {
    const twice = ['call not returned once', 'call not returned once']
    const cut = { polled: [seen('called', 0)], stored: [kept('called', 0)] }
    expect(breaches(cut)).toEqual([...twice, 'run ends differently'])
    const polled = [seen('called', 0), seen('returned', 1), seen('returned', 2)]
    const stored = [kept('called', 0), kept('returned', 1), kept('returned', 2)]
    expect(breaches({ polled, stored })).toEqual(twice)
  })

  it('accepts a second attempt, which has its own pair of events', () => {
    const polled = [seen('called', 0), seen('returned', 1), seen('called', 2), seen('returned', 3)]
    const stored = [kept('called', 0), kept('returned', 1), kept('called', 2, 2), kept('returned', 3, 2)]
    expect(breaches({ polled, stored })).toEqual([])
  })

  it('accepts a step that was cut, settled as not run, and cut once more', () => {
    const polled = [seen('called', 0), seen('returned', 1), seen('called', 2), seen('returned', 3)]
    const cut = { ...kept('returned', 1), code: 'ambiguous' }
    const again = { ...kept('returned', 3), code: 'ambiguous' }
    const stored = [kept('called', 0), cut, kept('called', 2), again]
    expect(breaches({ polled, stored })).not.toContain('call not returned once')
    const repeated = [kept('called', 0), kept('returned', 1), kept('called', 2), kept('returned', 3)]
    expect(breaches({ polled, stored: repeated })).toContain('call not returned once')
  })

  it("finds an end that differs from the caller's answer", () => {
    expect(breaches({ reply: { ...SUCCESS, success: false } })).toEqual(['run ends differently'])
    expect(breaches({ reply: { ...SUCCESS, runId: 'run-1' } })).toEqual(['run ends differently'])
  })

  it('finds a reader that missed an event, saw one twice, or saw none', () => {
    const [called, returned] = [seen('called', 0), seen('returned', 1)]
    for (const events of [[called], [called, called, returned], [returned, called], []]) {
      expect(breaches({ reading: { events } })).toEqual(['reader missed events'])
    }
    expect(breaches({ reading: { ended: false } })).toEqual(['stream not ended'])
  })

  it('finds a poll with events that are not in the store', () => {
    const stored = [kept('called', 0)]
    expect(breaches({ stored })).toEqual([
      'call not returned once',
      'poll and store differ',
      'reader missed events',
    ])
  })
})
