import { afterEach, describe, expect, it } from 'vitest'
import { createCommandSource } from '#sources/command/index'
import { COMMAND_OPTIONS } from '#sources/command/options'
import type { Source } from '#sources/kit/source'
import { createMcpSource } from '#sources/mcp/index'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { createOpenapiSource } from '#sources/openapi/index'
import { OPENAPI_OPTIONS } from '#sources/openapi/options'
import { createOpenToolSource } from '#sources/opentool/index'
import { OPENTOOL_OPTIONS } from '#sources/opentool/options'
import { createOtcSource } from '#sources/otc/index'
import { OTC_OPTIONS } from '#sources/otc/options'
import { createPackSource } from '#sources/pack/index'
import { PACK_OPTIONS } from '#sources/pack/options'
import { sampleOffer } from '../contracts/source-contract.ts'
import { invocationOf, servicesOf } from './sample-invocation.ts'

const SERVICES = servicesOf({})
const SAID = { policy: { approval: 'always' }, exclude: ['out*'] }
const URL_OF_NOBODY = 'http://127.0.0.1:9/'
const COMMAND = { argv: ['true'], description: 'Does nothing.' }

/** Sources without an upstream: overrides of the operator must apply without one. */
const SOURCES: Readonly<Record<string, () => Source>> = {
  mcp: () => createMcpSource('Up', MCP_OPTIONS.parse({ type: 'mcp', url: URL_OF_NOBODY, ...SAID }), SERVICES),
  openapi: () =>
    createOpenapiSource(
      'Up',
      OPENAPI_OPTIONS.parse({ type: 'openapi', url: URL_OF_NOBODY, ...SAID }),
      SERVICES,
    ),
  otc: () => createOtcSource('Up', OTC_OPTIONS.parse({ type: 'otc', url: URL_OF_NOBODY, ...SAID }), SERVICES),
  opentool: () =>
    createOpenToolSource(
      'Up',
      OPENTOOL_OPTIONS.parse({ type: 'opentool', url: URL_OF_NOBODY, ...SAID }),
      SERVICES,
    ),
  pack: () => createPackSource('Up', PACK_OPTIONS.parse({ type: 'pack', path: 'none', ...SAID }), SERVICES),
  command: () =>
    createCommandSource(
      'Up',
      COMMAND_OPTIONS.parse({ type: 'command', commands: { stays: COMMAND, 'out-1': COMMAND }, ...SAID }),
      SERVICES,
    ),
}

const HTTP_BINDING = {
  baseUrl: URL_OF_NOBODY,
  method: 'post',
  path: '/',
  parameters: [],
  credentials: [],
  tokenEndpoints: [],
}

const opened: Source[] = []
afterEach(async () => {
  for (const source of opened.splice(0)) await source.close()
})

describe('current operator options apply to tools accepted earlier, even if the upstream is unreachable', () => {
  it.each(Object.keys(SOURCES))('rule 32: %s', (type) => {
    const source = SOURCES[type]?.()
    if (source === undefined) throw new Error(type)
    opened.push(source)
    const pinned = (name: string) =>
      sampleOffer(name, { binding: HTTP_BINDING, policy: { approval: 'never' } })
    expect(source.wants?.(pinned('stays'))).toBe(true)
    expect(source.wants?.(pinned('out-1'))).toBe(false)
    if (type !== 'openapi') expect(source.policyFor?.(pinned('stays')).approval).toBe('always')
  })

  it('a command that is no longer in the table is not a tool', () => {
    expect(SOURCES.command?.().wants?.(sampleOffer('removed'))).toBe(false)
  })

  it('a command whose variable is no longer in its options is not run, and the error names the variable', async () => {
    const [before, after] = [{ ...COMMAND, env: { OWN: 'own' } }, COMMAND].map((it) =>
      createCommandSource(
        'Up',
        COMMAND_OPTIONS.parse({ type: 'command', isolation: 'none', commands: { it } }),
        SERVICES,
      ),
    )
    if (before === undefined || after === undefined) throw new Error('no source')
    opened.push(before, after)
    const discovery = await before.discover(new AbortController().signal)
    await expect(after.invoke(invocationOf(discovery, 'it'))).rejects.toMatchObject({
      code: 'upstream_failed',
      canRetry: true,
      message: 'The command it was not started; ask the operator of this server.',
      developerMessage: 'The variable OWN is no longer in the options of the command.',
    })
  })

  it('an operation with a method that is no longer selected is not a tool', () => {
    const options = OPENAPI_OPTIONS.parse({ type: 'openapi', url: URL_OF_NOBODY, methods: ['get'] })
    const source = createOpenapiSource('Up', options, SERVICES)
    expect(source.wants?.(sampleOffer('add', { binding: HTTP_BINDING }))).toBe(false)
    expect(source.wants?.(sampleOffer('see', { binding: { ...HTTP_BINDING, method: 'get' } }))).toBe(true)
  })

  it('a base address with a query is refused, because paths would become part of it', () => {
    const parsed = OPENAPI_OPTIONS.safeParse({
      type: 'openapi',
      file: 'a.json',
      baseUrl: 'https://a.example/?k=1',
    })
    expect(parsed.error?.issues[0]?.message).toMatch('without a query')
  })
})
