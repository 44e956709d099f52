import { describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { ToolRequirements } from '#kernel/tool/tool'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { FakeClock } from '#testing/test-gateway'
import { sampleOffer } from '../../../test/contracts/source-contract.ts'
import { sampleDiscovery, sampleSource } from '../../../test/samples/sources.ts'
import { definitionDiff, pinHash } from './definition-diff.ts'
import { Pins } from './pins.ts'

describe('changed requirements (rule 32)', () => {
  it.each<[string, ToolRequirements | undefined, ToolRequirements | undefined, string]>([
    ['a secret', undefined, { secrets: [{ id: 'key' }] }, 'breaking'],
    [
      'another secret',
      { secrets: [{ id: 'key' }] },
      { secrets: [{ id: 'key' }, { id: 'more' }] },
      'breaking',
    ],
    ['a token', undefined, { authorization: [{ id: 'hub', oauth2: { scopes: ['read'] } }] }, 'breaking'],
    [
      'one more scope',
      { authorization: [{ id: 'hub', oauth2: { scopes: ['read'] } }] },
      { authorization: [{ id: 'hub', oauth2: { scopes: ['read', 'write'] } }] },
      'breaking',
    ],
    ['the user', undefined, { userId: true }, 'breaking'],
    ['one secret less', { secrets: [{ id: 'key' }] }, undefined, 'widening'],
    [
      'one scope less',
      { authorization: [{ id: 'hub', oauth2: { scopes: ['read', 'write'] } }] },
      { authorization: [{ id: 'hub', oauth2: { scopes: ['read'] } }] },
      'widening',
    ],
    [
      'the same in another order',
      { secrets: [{ id: 'a' }, { id: 'b' }] },
      { secrets: [{ id: 'b' }, { id: 'a' }] },
      'wording',
    ],
  ])('%s: %s → %s is %s', async (_what, before, after, found) => {
    const pins = new Pins({ store: openMemoryStore(), clock: new FakeClock(), log: SILENT_LOGGER })
    const offer = (requirements: ToolRequirements | undefined) =>
      sampleOffer('a', requirements === undefined ? {} : { requirements })
    await pins.observe(sampleSource(), sampleDiscovery([offer(before)]))
    await pins.observe(sampleSource(), sampleDiscovery([offer(after)]))
    const [row] = await pins.list('files')
    expect(row?.waiting?.class).toBe(found)
    expect(row?.state).toBe(found === 'breaking' ? 'suspended' : 'served')
  })
})

describe('entries whose texts are Collet’s own', () => {
  it.each(['resources', 'completions'] as const)(
    'rule 32: a new description of %s is not an upstream change, but that of a prompt is',
    (kind) => {
      const offer = (of: 'resources' | 'completions' | 'prompt', description: string) =>
        sampleOffer('a', { description, entry: { kind: of, definition: {} } })
      expect(pinHash({}, offer(kind, 'Old.'))).toBe(pinHash({}, offer(kind, 'New.')))
      const pair = (of: 'resources' | 'completions' | 'prompt') =>
        definitionDiff(
          { identity: {}, offered: offer(of, 'Old.') },
          { identity: {}, offered: offer(of, 'New.') },
        )
      expect(pair(kind)).toEqual([])
      expect(pair('prompt')).toMatchObject([{ class: 'wording' }])
    },
  )
})
