import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { connect } from '#client/index'
import { tool } from '#kernel/tool/define'
import { serve } from '#server/create-gateway'
import { overridesOf } from '#server/sources'
import type { RunningServer } from '#server/start-server'
import { SOURCE_OPTIONS, type SourceOptions } from '#sources/source-types'
import { sampleTool } from '../contracts/samples.ts'

/*
 * A client of an OTC server can be pointed at a gateway in front of it (`ids: 'keep'`).
 */

const folder = mkdtempSync(join(tmpdir(), 'collet-kept-'))
const shared = { server: { port: 0 }, log: { level: 'silent' as const } }

function says(id: string, text: string) {
  return tool({ id, description: `Says ${text}.`, input: {}, output: { type: 'string' }, run: () => text })
}

function sub(name: string): string {
  const path = join(folder, name)
  mkdirSync(path, { recursive: true })
  return path
}

let first: RunningServer
let second: RunningServer
let gateway: RunningServer

beforeAll(async () => {
  first = await serve(
    {
      ...shared,
      tools: [
        says('SMS.Send@0.1.2', 'old'),
        says('SMS.Send@0.2.0', 'new'),
        says('SMS.Drop@1.0.0', 'dropped'),
        says('Clock.Now@3.0.0', 'now'),
      ],
    },
    { folder: sub('first') },
  )
  second = await serve(
    { ...shared, tools: [says('Clock.Now@3.1.0', 'later'), says('Own.Say@1.0.0', 'theirs')] },
    { folder: sub('second') },
  )
  gateway = await serve(
    {
      ...shared,
      tools: [says('Own.Say@2.0.0', 'ours')],
      egress: { allow: [first, second].map(({ url }) => new URL(url).host) },
      toolsets: { far: { include: ['source:First'] } },
      sources: {
        First: {
          type: 'otc',
          url: first.url,
          ids: 'keep',
          exclude: ['SMS.Drop'],
          tools: { 'SMS.Send': { safetyTier: 'read' }, 'SMS.Send@0.1.2': { cost: 7 } },
        },
        Second: { type: 'otc', url: second.url, ids: 'keep' },
      },
    },
    { folder: sub('gateway') },
  )
  await vi.waitFor(
    async () => expect(await sources()).toMatchObject([{ state: 'ready' }, { state: 'ready' }]),
    { timeout: 20_000 },
  )
}, 60_000)
afterAll(async () => {
  await gateway.close()
  await first.close()
  await second.close()
  rmSync(folder, { recursive: true })
})

async function admin(path: string, server = gateway): Promise<unknown> {
  const token = readFileSync(server.startTokenFile, 'utf8').trim()
  const headers = { authorization: `Bearer ${token}` }
  return await (await fetch(`${server.url}/admin${path}`, { headers })).json()
}

async function sources(server = gateway): Promise<unknown> {
  return z.object({ sources: z.unknown() }).parse(await admin('/sources', server)).sources
}

async function listed(server = gateway): Promise<readonly string[]> {
  const { tools } = z
    .object({ tools: z.array(z.object({ id: z.string() })) })
    .parse(await (await fetch(`${server.url}/tools`)).json())
  return tools.map(({ id }) => id).sort()
}

describe('an OTC source that keeps its ids', () => {
  it('lists every version under its upstream id', async () => {
    expect(await listed()).toEqual(['Clock.Now@3.0.0', 'Own.Say@2.0.0', 'SMS.Send@0.1.2', 'SMS.Send@0.2.0'])
  })

  it('runs the version that a client of the upstream requests', async () => {
    for (const url of [first.url, gateway.url]) {
      const client = connect(url)
      const replies = await Promise.all(
        ['SMS.Send@0.1.2', 'SMS.Send@0.2.0', 'SMS.Send'].map((id) => client.call(id, {})),
      )
      expect(replies).toMatchObject([{ value: 'old' }, { value: 'new' }, { value: 'new' }])
    }
  })

  it('reports the sources of clashing tools, and serves the earlier tool', async () => {
    const texts = JSON.stringify(await sources())
    expect(texts).toContain('already belongs to \\"Clock.Now@3.0.0\\", a tool of the source \\"First\\"')
    expect(texts).toContain('left out of the source \\"Second\\"')
    expect(texts).toContain('already belongs to \\"Own.Say@2.0.0\\", one of the config\'s own tools')
    const client = connect(gateway.url)
    expect(await client.call('Clock.Now', {})).toMatchObject({ value: 'now' })
    expect(await client.call('Own.Say', {})).toMatchObject({ value: 'ours' })
  })

  it('pins each version, and shows the pin and the source with the tool', async () => {
    const { pins } = z.object({ pins: z.array(z.object({ tool: z.string() })) }).parse(await admin('/pins'))
    expect(pins.map(({ tool: name }) => name)).toEqual(
      expect.arrayContaining(['First.SMS_Send_0_1_2', 'First.SMS_Send_0_2_0']),
    )
    expect(await admin('/tools/SMS.Send@0.1.2')).toMatchObject({
      tool: {
        id: 'SMS.Send@0.1.2',
        source: { key: 'First' },
        pin: { tool: 'First.SMS_Send_0_1_2' },
      },
    })
  })

  it('applies the operator’s overrides for all versions and for one', async () => {
    expect(await admin('/tools/SMS.Send@0.2.0')).toMatchObject({
      tool: { policy: { tier: 'read', cost: 1 } },
    })
    expect(await admin('/tools/SMS.Send@0.1.2')).toMatchObject({
      tool: { policy: { tier: 'read', cost: 7 } },
    })
  })

  it('is one source for toolsets, and has one catalog id for all versions', async () => {
    const answer = await fetch(`${gateway.url}/v1/tools`)
    const found = z.array(z.object({ toolId: z.string() })).parse(await answer.json())
    expect(found.map(({ toolId }) => toolId).sort()).toEqual([
      'connector:First.Clock.Now',
      'connector:First.SMS.Send',
      'openwop:Own.Say',
    ])
    const row = z.object({ id: z.string(), toolsets: z.array(z.string()).optional() })
    const { tools } = z.object({ tools: z.array(row) }).parse(await admin('/tools'))
    expect(tools.filter(({ toolsets }) => toolsets?.includes('far')).map(({ id }) => id)).toEqual([
      'Clock.Now',
      'SMS.Send',
    ])
  })

  it.each([
    ['a tool of either source', 'SMS.Send', ['ready', 'ready'], true],
    ['a tool of the second source', 'Clock.Now@3.1.0', ['ready', 'ready'], true],
    ['no tool of any source', 'SMS.Sned', ['degraded', 'degraded'], false],
  ])('with an approval rule for %s: %s', async (_, rule, states, isServed) => {
    const ruled = await serve(
      {
        ...shared,
        egress: { allow: [first, second].map(({ url }) => new URL(url).host) },
        approvals: { perTool: { [rule]: { quorum: 2 } } },
        sources: {
          First: { type: 'otc', url: first.url, ids: 'keep', exclude: ['Clock.Now'] },
          Second: { type: 'otc', url: second.url, ids: 'keep' },
        },
      },
      { folder: sub(rule) },
    )
    onTestFinished(() => ruled.close())
    await vi.waitFor(
      async () => expect(await sources(ruled)).toMatchObject(states.map((state) => ({ state }))),
      {
        timeout: 20_000,
      },
    )
    expect((await listed(ruled)).includes('SMS.Send@0.2.0')).toBe(isServed)
    expect((await listed(ruled)).includes('Clock.Now@3.1.0')).toBe(isServed)
    const texts = JSON.stringify(await sources(ruled))
    expect(texts.includes('The approval rule for \\"SMS.Sned\\"')).toBe(!isServed)
  })

  it('applies an approval rule to its tools where no other source can have them', () => {
    const keeping = SOURCE_OPTIONS.parse({ type: 'otc', url: first.url, ids: 'keep' })
    const plain = SOURCE_OPTIONS.parse({ type: 'otc', url: first.url })
    const rules = new Map(['SMS.Sned', 'Plain.Send', 'Own.Say'].map((name) => [name, {}]))
    const settingsFor = (others: Record<string, SourceOptions>) => ({
      approvals: { perTool: rules, whenPerTool: new Map() },
      tools: [sampleTool('Own.Say@2.0.0', () => 'ours')],
      sources: Object.entries({ First: keeping, ...others }),
    })
    const named = (others: Record<string, SourceOptions>) =>
      overridesOf('First', keeping, settingsFor(others)).map(({ name, guards }) => ({ name, guards }))
    expect(named({ Plain: plain })).toEqual([{ name: 'SMS.Sned', guards: true }])
    expect(named({ Second: keeping })).toEqual([
      { name: 'SMS.Sned', guards: true },
      { name: 'Plain.Send', guards: true },
    ])
  })
})
