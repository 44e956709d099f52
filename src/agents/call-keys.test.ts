import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isJsonObject } from '#kernel/base/json'
import { CallKeys, type HistoryEntry, shownCalls, unfinishedText } from './call-keys.ts'

const keys = new CallKeys({
  read: (tool, input) => ({ tool, input: isJsonObject(input) ? input : {}, again: 0 }),
})

const MAIL = { name: 'mail', input: { to: 'ann' } }

/** The key of a call after a history, in a message of its own. */
function keyAfter(entries: readonly HistoryEntry[], id = 'new', step = {}): string {
  const call = { tool: MAIL.name, input: MAIL.input, again: 0 }
  return keys.keyOf(call, { conversation: 'c', id, step, history: shownCalls(entries) })
}

function made(id: string, turn: number, text?: string): readonly HistoryEntry[] {
  const call = { call: { ...MAIL, id, turn } }
  return text === undefined ? [call] : [call, { resultOf: id, text }]
}

describe('the key of a call', () => {
  it('does not depend on the id of the call', () => {
    expect(keyAfter([], 'a')).toBe(keyAfter([], 'b'))
  })

  it('changes with a result in the history, not with a call that has none or whose outcome is unknown', () => {
    const first = keyAfter([])
    expect(keyAfter(made('a', 1))).toBe(first)
    expect(keyAfter(made('a', 1, unfinishedText('Try again.')))).toBe(first)
    expect(keyAfter(made('a', 1, 'done'))).not.toBe(first)
  })

  it('differs for equal calls of one message, in the order in which they start or in which the message has them', () => {
    const step = {}
    const started = ['x', 'y', 'x'].map((id) => keyAfter([], id, step))
    expect(started[0]).toBe(started[2])
    expect(started[0]).not.toBe(started[1])
    const shown = [...made('p', 1), ...made('q', 1)]
    expect(['p', 'q'].map((id) => keyAfter(shown, id))).toEqual(started.slice(0, 2))
  })

  it('is that of the pending call if a provider uses an id again', () => {
    const history = [...made('call_0', 1, 'done'), ...made('call_0', 2)]
    expect(keyAfter(history, 'call_0')).toBe(keyAfter(made('other', 1, 'done')))
  })

  it('continues to count with what was kept of a shortened history', () => {
    const gone = [...made('a', 1, 'done'), ...made('b', 2, 'done')]
    const earlier = keys.count(shownCalls(gone))
    const later = new CallKeys({ earlier, read: (tool) => ({ tool, input: MAIL.input, again: 0 }) })
    const call = { tool: MAIL.name, input: MAIL.input, again: 0 }
    const key = later.keyOf(call, { conversation: 'c', id: 'n', step: {}, history: [] })
    expect(key).toBe(keyAfter(gone))
  })

  it('is different for every call of any conversation, and equal when a prefix of it is replayed', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.constantFrom('ann', 'bob'), { minLength: 1, maxLength: 3 }), { maxLength: 6 }),
        (turns) => {
          const makeCalls = (run: string): string[] => {
            const entries: HistoryEntry[] = []
            return turns.flatMap((calls, turn) => {
              const step = {}
              const history = shownCalls(entries)
              const named = calls.map((to, at) => ({ id: `${run}-${turn}-${at}`, to }))
              const found = named.map(({ id, to }) =>
                keys.keyOf(
                  { tool: 'mail', input: { to }, again: 0 },
                  { conversation: 'c', id, step, history },
                ),
              )
              for (const { id, to } of named)
                entries.push({ call: { id, name: 'mail', input: { to }, turn } })
              for (const { id } of named) entries.push({ resultOf: id, text: 'done' })
              return found
            })
          }
          const first = makeCalls('first')
          expect(new Set(first).size).toBe(first.length)
          expect(makeCalls('second')).toEqual(first)
        },
      ),
    )
  })
})
