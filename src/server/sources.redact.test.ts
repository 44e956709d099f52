import { describe, expect, it } from 'vitest'
import { fault } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { OTC_OPTIONS } from '#sources/otc/options'
import { contextFor } from '../../test/contracts/source-contract.ts'
import { sampleSource } from '../../test/samples/sources.ts'
import { redactSource } from './sources.ts'

const OTC = OTC_OPTIONS.parse({
  ...{ type: 'otc', url: 'https://other.example', apiKey: 'canary-key-1' },
  secrets: { MAIL: 'canary-mail' },
})
const MCP = MCP_OPTIONS.parse({
  ...{ type: 'mcp', url: 'https://other.example/mcp' },
  headers: { Authorization: 'Bearer canary-bearer', 'X-Format': 'application/json' },
})

const INVOCATION = { nativeName: 'say', binding: {}, input: {}, context: contextFor() }

describe('credentials in the options of a source', () => {
  it('OWP-58: are removed from answers of its upstream, at any place', async () => {
    const value: JsonValue = {
      header: 'Authorization: Bearer canary-bearer',
      bare: ['canary-bearer'],
      kind: 'application/json',
    }
    const source = redactSource(sampleSource({ invoke: async () => value }), MCP)
    expect(await source.invoke(INVOCATION)).toEqual({
      ...{ header: 'Authorization: [redacted]', bare: ['[redacted]'], kind: 'application/json' },
    })
    const nothing = redactSource(sampleSource({ invoke: async () => undefined }), OTC)
    expect(await nothing.invoke(INVOCATION)).toBe(undefined)
  })

  it('OWP-58: are removed from the text of its errors, which keep their other members', async () => {
    const error = fault('upstream_failed', 'canary-key-1 is not known.', {
      ...{ developerMessage: 'canary-mail too', canRetry: true, retryAfterMs: 5, errorNumber: 7 },
      cause: new Error('canary-key-1'),
    })
    const failing = redactSource(
      sampleSource({
        invoke: async () => {
          throw error
        },
      }),
      OTC,
    )
    const thrown = await failing.invoke(INVOCATION).catch((caught: unknown) => caught)
    expect(thrown).toMatchObject({
      ...{ code: 'upstream_failed', message: '[redacted] is not known.', developerMessage: '[redacted] too' },
      ...{ canRetry: true, retryAfterMs: 5, errorNumber: 7, cause: { message: '[redacted]' } },
    })
  })

  it('OWP-58: a source without credentials is not wrapped', () => {
    const source = sampleSource({})
    const { invoke } = source
    const plain = OTC_OPTIONS.parse({ type: 'otc', url: 'https://other.example' })
    expect(redactSource(source, plain).invoke).toBe(invoke)
  })
})
