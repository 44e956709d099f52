import { afterEach, describe, expect, it, vi } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import { LiveRegistry } from '#kernel/tool/catalog'
import { CatalogChanges } from '#kernel/tool/catalog-changes'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { callContext } from '../../../test/sources/call-context.ts'
import type { Discovery, OfferedTool, Source } from './source.ts'
import type { DefinitionPins, PinnedTool } from './source-runner.ts'
import { Sources, type WantedSource } from './sources.ts'

const ALICE: Principal = { id: 'key:alice', tenant: 'default', scopes: [] }

function offered(nativeName: string): OfferedTool {
  return { nativeName, description: nativeName, inputSchema: {}, outputSchema: {}, policy: {}, binding: {} }
}

/** Accepts the first discovery of each source and no later change. */
class FirstSight implements DefinitionPins {
  readonly pinned = new Map<string, readonly PinnedTool[]>()

  async accepted(key: string) {
    return this.pinned.get(key) ?? []
  }

  async names(key: string) {
    return (await this.accepted(key)).map(({ offered: { nativeName } }) => nativeName)
  }

  async observe({ key }: Source, { tools, identity }: Discovery) {
    if (this.pinned.has(key)) return { changed: false, waiting: 0 }
    this.pinned.set(
      key,
      tools.map((tool) => ({ offered: tool, identity, version: '1.0.0' })),
    )
    return { changed: true, waiting: 0 }
  }
}

function sourceOf(
  key: string,
  discover: () => Promise<readonly string[]>,
): Source & { readonly log: string[] } {
  const log: string[] = []
  return {
    key,
    type: 'custom',
    kind: 'connector',
    log,
    async discover() {
      log.push('discover')
      return { identity: { key }, tools: (await discover()).map(offered), warnings: [] }
    },
    invoke: async () => null,
    health: () => ({ state: 'ready' }),
    async close() {
      log.push('close')
    },
  }
}

const closing: Sources[] = []
afterEach(async () => {
  for (const sources of closing.splice(0)) await sources.close()
  vi.useRealTimers()
})

function openSources(wanted: () => readonly WantedSource[], pins: DefinitionPins = new FirstSight()) {
  const own = [sampleTool('Calc.Add@1.0.0', () => 1)]
  const changes = new CatalogChanges()
  const registry = new LiveRegistry(own, new Map(), changes)
  const state: { epoch: number; invoke?: Source['invoke'] } = { epoch: 0 }
  const sources = new Sources({
    ...{ registry, pins, clock: SYSTEM_CLOCK, log: SILENT_LOGGER },
    own: { tools: own, toolkits: new Map() },
    wanted: async () => wanted(),
    epoch: async () => state.epoch,
    project: async ({ key, kind }, pinned, invoke) => {
      state.invoke ??= invoke
      const tools = pinned.map((pin) =>
        sampleTool(`${key}.${pin.offered.nativeName}@1.0.0`, () => null, { source: kind }),
      )
      return { tools, findings: [], warnings: [] }
    },
  })
  closing.push(sources)
  const listed = (): string[] => registry.catalogFor(ALICE).tools.map(({ id }) => id)
  return { sources, registry, listed, state, changes }
}

function wantedOf(source: Source, revision = '1'): WantedSource {
  return {
    key: source.key,
    type: source.type,
    kind: source.kind,
    revision,
    description: 'Some.',
    open: () => source,
  }
}

describe('Sources', () => {
  it('closes a replaced source only after its calls have ended', async () => {
    const answer = Promise.withResolvers<null>()
    const old = { ...sourceOf('Up', async () => ['a']), invoke: () => answer.promise }
    let wanted = [wantedOf(old)]
    const { sources, state } = openSources(() => wanted)
    await sources.start()
    const calling = state.invoke?.({ nativeName: 'a', binding: {}, input: {}, context: callContext() })
    wanted = [
      wantedOf(
        sourceOf('Up', async () => ['a']),
        '2',
      ),
    ]
    await sources.sync()
    expect(old.log).not.toContain('close')
    answer.resolve(null)
    await calling
    await vi.waitFor(() => expect(old.log).toContain('close'))
  })

  it('serves the tools of a source beside the tools written as code', async () => {
    const { sources, listed, registry } = openSources(() => [
      wantedOf(sourceOf('Web', async () => ['Get', 'Put'])),
    ])
    await sources.start()
    expect(listed()).toEqual(['Calc.Add@1.0.0', 'Web.Get@1.0.0', 'Web.Put@1.0.0'])
    expect(registry.toolkits.get('Web')).toBe('Some.')
    expect(sources.status()).toMatchObject([{ key: 'Web', state: 'ready', tools: 2, offered: 2, waiting: 0 }])
  })

  it('serves the accepted definitions of a source that this process could never reach', async () => {
    const pins = new FirstSight()
    pins.pinned.set('Web', [{ offered: offered('Get'), identity: {}, version: '1.0.0' }])
    const dead = sourceOf('Web', () => Promise.reject(fault('upstream_failed', 'It is offline.')))
    const { sources, listed } = openSources(() => [wantedOf(dead)], pins)
    await sources.start()
    expect(listed()).toContain('Web.Get@1.0.0')
    await expect.poll(() => sources.status()[0]).toMatchObject({ state: 'down', reason: 'It is offline.' })
  })

  it('does not serve an excluded tool, even if it was accepted and the upstream is down', async () => {
    const pins = new FirstSight()
    pins.pinned.set(
      'Web',
      ['Get', 'Put'].map((name) => ({ offered: offered(name), identity: {}, version: '1.0.0' })),
    )
    const dead = sourceOf('Web', () => Promise.reject(fault('upstream_failed', 'It is offline.')))
    const source: Source = { ...dead, wants: ({ nativeName }) => nativeName !== 'Put' }
    const { sources, listed } = openSources(() => [wantedOf(source)], pins)
    await sources.start()
    expect(listed()).toEqual(['Calc.Add@1.0.0', 'Web.Get@1.0.0'])
  })

  it('withdraws tools that a reading shows to be unwanted, even if no pin changes', async () => {
    const pins = new FirstSight()
    pins.pinned.set('Web', [{ offered: offered('Get'), identity: {}, version: '1.0.0' }])
    let isRead = false
    const read = sourceOf('Web', async () => {
      isRead = true
      return []
    })
    const { sources, listed } = openSources(() => [wantedOf({ ...read, wants: () => !isRead })], pins)
    await sources.start()
    await expect.poll(listed).toEqual(['Calc.Add@1.0.0'])
  })

  it('withholds the tools while an approval override matches none of them, even if the upstream is down, and serves them once it matches', async () => {
    const pins = new FirstSight()
    const pinned = (name: string) => ({ offered: offered(name), identity: {}, version: '1.0.0' })
    pins.pinned.set('Web', [pinned('Get'), pinned('Put')])
    const guard = (name: string) => [
      { where: `tools.${name}`, name, of: 'native names' as const, guards: true },
    ]
    const dead = () => sourceOf('Web', () => Promise.reject(fault('upstream_failed', 'It is offline.')))
    let wanted: WantedSource = { ...wantedOf(dead()), overrides: guard('Putt') }
    const { sources, listed, state } = openSources(() => [wanted], pins)
    await sources.start()
    expect(listed()).toEqual(['Calc.Add@1.0.0'])
    await expect.poll(() => sources.status()[0]?.state).toBe('down')
    expect(sources.status()[0]?.warnings.join()).toContain('Did you mean "Put"?')
    wanted = { ...wantedOf(dead(), '2'), overrides: guard('Put') }
    state.epoch += 1
    await expect.poll(listed).toContain('Web.Put@1.0.0')
  })

  it('accepts a guard for a tool that was removed since: a replacement must be accepted first', async () => {
    const names = ['Get', 'Put']
    const source = sourceOf('Web', async () => names)
    const overrides = [{ where: 'tools.Put', name: 'Put', of: 'native names' as const, guards: true }]
    const { sources, listed } = openSources(() => [{ ...wantedOf(source), overrides }])
    await sources.start()
    names.pop()
    await sources.refresh('Web')
    expect([listed(), sources.status()[0]?.state]).toEqual([
      ['Calc.Add@1.0.0', 'Web.Get@1.0.0', 'Web.Put@1.0.0'],
      'ready',
    ])
  })

  it('starts without a source that never answers', async () => {
    vi.useFakeTimers()
    const { sources, listed } = openSources(() => [
      wantedOf(sourceOf('Slow', () => new Promise(() => undefined))),
      wantedOf(sourceOf('Quick', async () => ['Get'])),
    ])
    const started = sources.start()
    await vi.advanceTimersByTimeAsync(3_000)
    await started
    expect(listed()).toEqual(['Calc.Add@1.0.0', 'Quick.Get@1.0.0'])
    expect(sources.status()).toMatchObject([{ state: 'starting' }, { state: 'ready' }])
  })

  it('reads again after failures, with growing pauses', async () => {
    vi.useFakeTimers()
    let answers = false
    const source = sourceOf('Web', async () => {
      if (!answers) throw new Error('down')
      return ['Get']
    })
    const { sources, listed } = openSources(() => [wantedOf(source)])
    await sources.start()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(source.log.length).toBe(4)
    answers = true
    await vi.advanceTimersByTimeAsync(10_000)
    expect(listed()).toContain('Web.Get@1.0.0')
    expect(sources.status()[0]?.state).toBe('ready')
  })

  it('starts even if a source cannot be opened', async () => {
    const broken: WantedSource = {
      key: 'Broken',
      type: 'mcp',
      kind: 'mcp',
      revision: '1',
      open: () => {
        throw new Error('no such file')
      },
    }
    const { sources, listed } = openSources(() => [broken, wantedOf(sourceOf('Web', async () => ['Get']))])
    await sources.start()
    expect(listed()).toContain('Web.Get@1.0.0')
    expect(sources.status()[0]).toMatchObject({ key: 'Broken', state: 'down', reason: 'no such file' })
  })

  it('opens, reopens and closes sources when the store changes', async () => {
    const first = sourceOf('Web', async () => ['Get'])
    let wanted = [wantedOf(first)]
    const { sources, listed, state } = openSources(() => wanted)
    await sources.start()
    const second = sourceOf('Web', async () => ['Get'])
    wanted = [wantedOf(second, '2'), wantedOf(sourceOf('More', async () => ['Do']))]
    state.epoch += 1
    await expect.poll(listed, { timeout: 1_500 }).toContain('More.Do@1.0.0')
    expect(first.log.at(-1)).toBe('close')
    wanted = []
    state.epoch += 1
    await expect.poll(listed, { timeout: 1_500 }).toEqual(['Calc.Add@1.0.0'])
    expect(second.log.at(-1)).toBe('close')
  })

  it('keeps a source open until its replacement is served', async () => {
    const first = sourceOf('Web', async () => ['Get'])
    let wanted = [wantedOf(first)]
    const { sources, state } = openSources(() => wanted)
    await sources.start()
    const opening = Promise.withResolvers<Source>()
    const asked = Promise.withResolvers<void>()
    const second = sourceOf('Web', async () => ['Get'])
    const open = () => {
      asked.resolve()
      return opening.promise
    }
    wanted = [{ ...wantedOf(second, '2'), open }]
    state.epoch += 1
    await asked.promise
    await new Promise(setImmediate)
    expect(first.log).not.toContain('close')
    opening.resolve(second)
    await expect.poll(() => first.log.at(-1), { timeout: 1_500 }).toBe('close')
  })

  it('never lets a source replace an existing tool', async () => {
    const { sources, listed } = openSources(() => [wantedOf(sourceOf('Calc', async () => ['Add', 'Sub']))])
    await sources.start()
    expect(listed()).toEqual(['Calc.Add@1.0.0', 'Calc.Sub@1.0.0'])
    expect(sources.status()[0]?.findings).toMatchObject([{ toolId: 'Calc.Add@1.0.0' }])
  })

  it('keeps the catalog object while nothing changes', async () => {
    const { sources, registry, changes } = openSources(() => [wantedOf(sourceOf('Web', async () => ['Get']))])
    await sources.start()
    const before = registry.catalogFor(ALICE)
    const listener = vi.fn()
    changes.listen(listener)
    await sources.refresh('Web')
    await sources.sync()
    expect(registry.catalogFor(ALICE)).toBe(before)
    expect(listener).not.toHaveBeenCalled()
  })
})
