import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { answered, CommitGroup, get, type PendingChange, type Steps } from '#kernel/store/engine'
import { KeyRing } from '#kernel/store/key-ring'
import { driveLanes } from './lanes.ts'

const keys = KeyRing.fresh({ current: randomBytes(32) })

/** Sends this many requests under its own name, and writes an event with each answer. */
function change(name: string, lane: string, requests: number, gave: Map<string, unknown>): PendingChange {
  function* begin(group: CommitGroup): Steps<string> {
    for (let nth = 0; nth < requests; nth += 1) {
      const row = yield* get('readMeta', `${name}${nth}`)
      group.append({
        type: 'writer.started',
        at: nth,
        heads: [{ writer: String(row?.value), group: 0, link: '' }],
      })
    }
    return name
  }
  return { key: name, lane, begin, keep: (result) => gave.set(name, result) }
}

async function drive(changes: readonly PendingChange[]) {
  const group = new CommitGroup({ id: 1, writer: 1, keys, notify: () => answered(undefined) })
  const trips: string[][] = []
  await driveLanes(group, changes, async (requests) => {
    trips.push(requests.map(({ values }) => String(values[0])))
    for (const request of requests)
      if (request.kind === 'get') request.answer = { value: String(request.values[0]) }
  })
  const events: readonly { readonly heads: readonly { readonly writer: string }[] }[] = JSON.parse(
    group.eventsJson,
  )
  return { trips, events: events.map(({ heads }) => heads[0]?.writer) }
}

describe('statements of different lanes', () => {
  it('are sent together, while changes in one lane run one after another', async () => {
    const gave = new Map<string, unknown>()
    const { trips } = await drive([
      change('a', 'left', 2, gave),
      change('b', 'right', 1, gave),
      change('c', 'left', 1, gave),
      change('d', 'right', 0, gave),
    ])
    expect(trips).toEqual([['a0', 'b0'], ['a1'], ['c0']])
    expect([...gave.keys()].toSorted()).toEqual(['a', 'b', 'c', 'd'])
  })

  it('keep the events of each change together, in the order of the changes', async () => {
    const gave = new Map<string, unknown>()
    const changes = ['a', 'b', 'c'].map((name, index) => change(name, name, 3 - index, gave))
    const { events } = await drive(changes)
    expect(events).toEqual(['a0', 'a1', 'a2', 'b0', 'b1', 'c0'])
  })
})
