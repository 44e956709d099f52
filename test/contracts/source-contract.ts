import assert from 'node:assert/strict'
import { isToolError } from '#kernel/base/errors'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import { plainValue, type StatefulContext } from '#kernel/tool/tool'
import { checkSchema } from '#schema/check'
import type { Discovery, OfferedTool, Source } from '#sources/kit/source'
import type { ContractCase } from './contract-case.ts'

/** A tool as an upstream might offer it. */
export function sampleOffer(nativeName: string, other: Partial<OfferedTool> = {}): OfferedTool {
  return {
    nativeName,
    description: `Does ${nativeName}.`,
    inputSchema: {
      type: 'object',
      properties: { path: { type: 'string', description: 'Which one.' } },
      required: ['path'],
    },
    outputSchema: {},
    policy: { safetyTier: 'write' },
    binding: { url: `https://tools.example/${encodeURIComponent(nativeName)}` },
    ...other,
  }
}

/** A source with a real upstream, and the facts about it that the suite needs. */
export interface SourceUnderTest {
  readonly source: Source
  /** A call that succeeds. */
  readonly good: {
    readonly nativeName: string
    readonly input: JsonObject
    check(value: JsonValue | undefined): void
  }
  /** A call that does not end by itself within 5 s; absent where the counterpart has none. */
  readonly slow?: { readonly nativeName: string; readonly input: JsonObject }
  /** Credentials by requirement id. */
  readonly credentials?: Readonly<Record<string, string>>
  /** Ends the upstream for good. Absent where there is nothing to end. */
  stop?(): Promise<void>
  /** Releases all resources after the source was closed. */
  close(): Promise<void>
}

/** The invocation of a call, as the server passes it to a source. */
export function contextFor(
  credentials: Readonly<Record<string, string>> = {},
  changes: Partial<StatefulContext<unknown>> = {},
): StatefulContext<unknown> {
  const find = (id: string): Secret => new Secret(credentials[id] ?? '')
  return {
    callId: 'call-1',
    traceId: 'trace-1',
    signal: new AbortController().signal,
    principal: { id: 'key:alice', tenant: 'default', scopes: [] },
    userId: undefined,
    claimedUserId: undefined,
    userInfo: undefined,
    session: undefined,
    token: find,
    secret: find,
    fetch: () => Promise.reject(new Error('a source has its own egress')),
    log: SILENT_LOGGER,
    progress: () => undefined,
    message: () => undefined,
    elicit: async () => ({ action: 'decline' }),
    effectKey: (ordinal = 0) => `effect-key-${ordinal}`,
    ...changes,
  }
}

const PATIENCE_MS = 10_000

function discover({ source }: SourceUnderTest): Promise<Discovery> {
  return source.discover(AbortSignal.timeout(PATIENCE_MS))
}

async function offeredBy(subject: SourceUnderTest, nativeName: string): Promise<OfferedTool> {
  const { tools } = await discover(subject)
  const found = tools.find((tool) => tool.nativeName === nativeName)
  assert.ok(
    found !== undefined,
    `${nativeName} is not among ${tools.map((tool) => tool.nativeName).join(', ')}`,
  )
  return found
}

/** One case of a source's contract, on its own source, which is closed afterwards. */
function it(name: string, check: (subject: SourceUnderTest) => Promise<void>): ContractCase<SourceUnderTest> {
  return {
    name,
    async run(open) {
      const subject = await open()
      try {
        await check(subject)
      } finally {
        await subject.source.close()
        await subject.close()
      }
    },
  }
}

/** The contract of every source. */
export const SOURCE_CONTRACT: readonly ContractCase<SourceUnderTest>[] = [
  it('rule 32: offers tools with unique names, usable schemas and bindings that are plain JSON', async (subject) => {
    const { tools, identity } = await discover(subject)
    assert.ok(tools.length > 0)
    assert.equal(new Set(tools.map(({ nativeName }) => nativeName)).size, tools.length)
    assert.deepEqual(JSON.parse(JSON.stringify(identity)), identity)
    assert.notDeepEqual(identity, {})
    for (const { description, inputSchema, outputSchema, binding } of tools) {
      assert.ok(description.trim() !== '')
      assert.deepEqual(JSON.parse(JSON.stringify({ inputSchema, outputSchema, binding })), {
        inputSchema,
        outputSchema,
        binding,
      })
      const problems: string[] = []
      checkSchema(inputSchema, 'input', (where, problem) => void problems.push(`${where}: ${problem}`), {
        references: 'allowed',
      })
      assert.deepEqual(problems, [])
    }
  }),
  it('rule 32: offers the same when nothing changed upstream', async (subject) => {
    const [first, second] = [await discover(subject), await discover(subject)]
    assert.deepEqual(second.identity, first.identity)
    assert.deepEqual(second.tools, first.tools)
  }),
  it('OWP-33: decides the tier of each tool, never below the tier set by the operator', async (subject) => {
    for (const { policy } of (await discover(subject)).tools) {
      assert.ok(policy.safetyTier !== undefined)
      assert.ok(policy.egress !== undefined)
    }
  }),
  it('accepts its own offered tools, under their offered policy', async (subject) => {
    const { source } = subject
    for (const tool of (await discover(subject)).tools) {
      if (source.policyFor !== undefined) assert.deepEqual(source.policyFor(tool), tool.policy)
      if (source.wants !== undefined) assert.equal(source.wants(tool), true)
    }
  }),
  it('executes a call with its binding after a round trip through a store', async (subject) => {
    const { nativeName, input, check } = subject.good
    const { binding } = await offeredBy(subject, nativeName)
    const kept: JsonObject = JSON.parse(JSON.stringify(binding))
    const context = contextFor(subject.credentials)
    check(plainValue(await subject.source.invoke({ nativeName, binding: kept, input, context })))
    assert.equal(subject.source.health().state, 'ready')
  }),
  it('rule 10: ends a call soon after its signal', async (subject) => {
    if (subject.slow === undefined) return
    const { nativeName, input } = subject.slow
    const { binding } = await offeredBy(subject, nativeName)
    const signal = AbortSignal.timeout(300)
    const startedMs = performance.now()
    await assert.rejects(
      subject.source.invoke({
        nativeName,
        binding,
        input,
        context: contextFor(subject.credentials, { signal }),
      }),
    )
    assert.ok(performance.now() - startedMs < 4_000)
  }),
  it('rule 9: reports an unreachable upstream, and allows no retry of a call that may have taken effect', async (subject) => {
    if (subject.stop === undefined) return
    const { nativeName, input } = subject.good
    const { binding } = await offeredBy(subject, nativeName)
    await subject.stop()
    await assert.rejects(
      subject.source.invoke({ nativeName, binding, input, context: contextFor(subject.credentials) }),
      (error: unknown) => isToolError(error) && error.code === 'upstream_failed',
    )
    await assert.rejects(
      discover(subject),
      (error: unknown) => isToolError(error) && error.code === 'upstream_failed',
    )
  }),
  it('can be closed twice, and accepts no calls after that', async (subject) => {
    const { nativeName, input } = subject.good
    const { binding } = await offeredBy(subject, nativeName)
    await subject.source.close()
    await assert.rejects(
      subject.source.invoke({ nativeName, binding, input, context: contextFor(subject.credentials) }),
    )
  }),
]
