import { describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { FakeClock } from '#testing/test-gateway'
import { sampleOffer } from '../../../test/contracts/source-contract.ts'
import { sampleDiscovery, sampleSource } from '../../../test/samples/sources.ts'
import { Pins } from './pins.ts'
import type { OfferedTool, Source, ToolHints } from './source.ts'

const policyOf = (hints: ToolHints | undefined): OfferedTool['policy'] => ({
  safetyTier: hints?.readOnly === true ? 'read' : 'write',
})

/** A source whose tools have the tier of their hints. */
const SOURCE: Source = { ...sampleSource(), policyFor: ({ hints }) => policyOf(hints) }

function offer(readOnly: boolean | undefined, description = 'Does a.'): OfferedTool {
  const hints = readOnly === undefined ? undefined : { readOnly, idempotent: false }
  return {
    ...sampleOffer('a'),
    ...{ description, policy: policyOf(hints) },
    ...(hints === undefined ? {} : { hints }),
  }
}

async function discover(...offers: readonly OfferedTool[]) {
  const pins = new Pins({ store: openMemoryStore(), clock: new FakeClock(), log: SILENT_LOGGER })
  let waiting = 0
  for (const tool of offers) waiting = (await pins.observe(SOURCE, sampleDiscovery([tool]))).waiting
  const [served] = await pins.accepted('files')
  return { waiting, tier: served?.offered.policy.safetyTier, version: served?.version, pins }
}

describe('hints of a pinned tool', () => {
  it('apply to the accepted definition while the operator trusts them', async () => {
    expect(await discover(offer(undefined), offer(true))).toMatchObject({
      waiting: 0,
      tier: 'read',
      version: '1.0.0',
    })
    expect(await discover(offer(true), offer(undefined))).toMatchObject({ waiting: 0, tier: 'write' })
    expect(await discover(offer(undefined), offer(true), offer(undefined), offer(true))).toMatchObject({
      waiting: 0,
      tier: 'read',
    })
  })

  it('apply only to the accepted definition', async () => {
    expect(await discover(offer(undefined), offer(true, 'Does b.'))).toMatchObject({
      waiting: 1,
      tier: 'write',
    })
  })

  it('end at once if they are withdrawn, even with other changes, and wait if they are new', async () => {
    expect(await discover(offer(true), offer(false))).toMatchObject({ waiting: 0, tier: 'write' })
    expect(await discover(offer(true), offer(false, 'Does b.'))).toMatchObject({ waiting: 1, tier: 'write' })
    expect(await discover(offer(true), offer(false), offer(true))).toMatchObject({
      waiting: 1,
      tier: 'write',
    })
    const { waiting, tier, pins } = await discover(offer(false), offer(true))
    expect([waiting, tier]).toEqual([1, 'write'])
    expect((await pins.diff('files.a'))?.differences).toMatchObject([
      { where: 'hints/readOnly', class: 'widening', before: false, after: true },
    ])
    await pins.accept('files.a', { by: 'ann' })
    const [served] = await pins.accepted('files')
    expect(served?.offered.policy.safetyTier).toBe('read')
  })

  it.each(['additive', 'closedWorld'] as const)(
    '%s waits for a decision if it is new, and ends at once if it is withdrawn',
    async (name) => {
      const promised = {
        ...offer(false),
        hints: { readOnly: false, idempotent: false, [name]: true as const },
      }
      const more = await discover(offer(false), promised)
      expect(more.waiting).toBe(1)
      expect((await more.pins.accepted('files'))[0]?.offered.hints).not.toHaveProperty(name)
      expect((await more.pins.diff('files.a'))?.differences).toMatchObject([
        { where: `hints/${name}`, class: 'widening', after: true },
      ])
      const less = await discover(promised, offer(false))
      expect(less.waiting).toBe(0)
      expect((await less.pins.accepted('files'))[0]?.offered.hints).toEqual({
        readOnly: false,
        idempotent: false,
      })
    },
  )
})
