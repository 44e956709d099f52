import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { CallFailure, connect, opentool } from '#client/index'
import { readOpentoolLines } from './opentool-vectors.ts'

const vectorShape = z.strictObject({
  id: z.string(),
  kind: z.literal('client'),
  rule: z.string(),
  op: z.enum(['call', 'version', 'load']),
  /** Without a status, no server listens. */
  response: z.looseObject({
    status: z.number().optional(),
    contentType: z.string().optional(),
    body: z.unknown().optional(),
    raw: z.string().optional(),
  }),
  expect: z.strictObject({
    ok: z.unknown().optional(),
    throws: z.string().optional(),
    code: z.number().optional(),
    message: z.string().optional(),
  }),
  why: z.string(),
  basis: z.string(),
  sdk_ts: z.unknown(),
})

type ClientVector = z.infer<typeof vectorShape>

const vectors = readOpentoolLines('client').map((line) => vectorShape.parse(line))
const CALL = { id: 'id-1', name: 'f', arguments: { a: 1 } }

function answering({ status, contentType = 'application/json', body, raw }: ClientVector['response']) {
  return async () => {
    if (status === undefined) throw new TypeError('fetch failed', { cause: new Error('ECONNREFUSED') })
    return new Response(raw ?? JSON.stringify(body), { status, headers: { 'content-type': contentType } })
  }
}

describe('OpenTool vectors through the client', () => {
  it('finds the client vectors', () => {
    expect(vectors.length).toBeGreaterThanOrEqual(12)
  })

  it.each(vectors.map((vector) => [vector.id, vector.rule, vector.why, vector] as const))(
    '%s (%s): %s',
    async (_id, _rule, _why, { op, response, expect: wanted }) => {
      const client = opentool.connect('http://127.0.0.1:9627', { fetch: answering(response), maxRetries: 0 })
      const asked = op === 'call' ? client.call(CALL) : op === 'version' ? client.version() : client.load()
      if (wanted.throws === undefined) {
        expect(await asked).toEqual(wanted.ok)
        return
      }
      const failure = await asked.then(
        () => undefined,
        (error: unknown) => error,
      )
      expect(failure).toBeInstanceOf(CallFailure)
      const exception = opentool.exceptionOf(failure)
      expect(exception?.name).toBe(wanted.throws)
      const { throws: _throws, ...reported } = wanted
      expect(exception?.toJson()).toMatchObject(reported)
    },
  )

  it.each(vectors.filter(({ op }) => op === 'call').map((vector) => [vector.id, vector] as const))(
    '%s: the same answer through `connect` is a value or a classed failure',
    async (_id, { response, expect: wanted }) => {
      const fetch = async (url: string) =>
        url.endsWith('/load') ? Response.json({}) : await answering(response)()
      const client = connect('http://127.0.0.1:9627', { protocol: 'opentool', fetch, randomId: () => 'id-1' })
      const tried = await client.tryCall('f', { a: 1 })
      expect(tried.ok).toBe(wanted.throws === undefined)
    },
  )
})
