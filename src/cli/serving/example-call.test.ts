import { describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import type { JsonObject } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { tool } from '#kernel/tool/define'
import { prepareTools } from '#kernel/tool/prepare-tools'
import { exampleCurl, exampleInput } from './example-call.ts'

const NO_AUTH: Settings['auth'] = { apiKeys: [], jwt: undefined }
const OPEN = { auth: NO_AUTH, isKeyed: false }
const JWT = { secret: new Secret('hunter2'), tenant: 'default', audiences: [], maxLifetimeSeconds: 60 }
const API_KEY = { id: 'a', key: new Secret('hunter2'), tenant: 'default', scopes: [] }

function prepared(...definitions: JsonObject[]) {
  const made = prepareTools(
    definitions.map((definition) => ({
      definition: tool({
        id: 'T.A@1.0.0',
        description: 'A tool.',
        input: { type: 'object' },
        output: {},
        run: () => null,
        ...definition,
      }),
    })),
  )
  return made.ok ? made.tools : []
}

const text = { type: 'string', description: 'Text.' }

describe('exampleCurl', () => {
  it('prefers a tool that changes nothing and needs nothing', () => {
    const tools = prepared(
      { id: 'T.Write@1.0.0' },
      { id: 'T.Needy@1.0.0', policy: { safetyTier: 'read' }, requirements: { userId: true } },
      { id: 'T.Scoped@1.0.0', policy: { safetyTier: 'read', scopes: ['x'] } },
      { id: 'T.Read@1.0.0', policy: { safetyTier: 'read' } },
    )
    expect(tools).toHaveLength(4)
    expect(exampleCurl('http://127.0.0.1:1', { tools, ...OPEN })).toBe(
      `curl -s http://127.0.0.1:1/tools/call -H 'content-type: application/json' -d '{"request":{"tool_id":"T.Read@1.0.0","input":{}}}'`,
    )
  })

  it.each<[string, Settings['auth'], boolean, string | undefined]>([
    ['an open server', NO_AUTH, false, undefined],
    ['keys in the config', { ...NO_AUTH, apiKeys: [API_KEY] }, true, 'COLLET_API_KEY'],
    ['keys in the store', NO_AUTH, true, 'COLLET_API_KEY'],
    ['auth.required before the first key', { ...NO_AUTH, required: true }, false, 'COLLET_API_KEY'],
    ['tokens only', { ...NO_AUTH, jwt: JWT }, true, 'COLLET_TOKEN'],
  ])(
    'names the variable of the credential that %s needs, never the credential',
    (_, auth, isKeyed, variable) => {
      const curl = exampleCurl('http://127.0.0.1:1', { tools: prepared({}), auth, isKeyed })
      expect(/-H "authorization: Bearer \$(\w+)"/.exec(curl ?? '')?.[1]).toBe(variable)
      expect(curl).not.toContain('hunter2')
    },
  )

  it('leaves out a tool whose schema refuses the example', () => {
    const input = { type: 'object', properties: { a: { ...text, pattern: '^\\d+$' } }, required: ['a'] }
    expect(exampleCurl('http://x', { tools: prepared({ input }), ...OPEN })).toBeUndefined()
  })

  it('quotes what a shell would change', () => {
    const input = {
      type: 'object',
      properties: { a: { ...text, examples: ["it's $HOME"] } },
      required: ['a'],
    }
    expect(exampleCurl('http://x', { tools: prepared({ input }), ...OPEN })).toContain(`it'\\''s $HOME`)
  })
})

describe('exampleInput', () => {
  it('fills in what is required', () => {
    const schema = {
      type: 'object',
      properties: {
        a: { type: 'number' },
        b: { type: 'integer', minimum: 10 },
        c: { enum: ['x', 'y'] },
        d: { const: 7 },
        e: { type: 'array', items: text, minItems: 1 },
        f: { type: ['boolean', 'null'] },
        g: { type: 'object', properties: { h: text }, required: ['h'] },
        left_out: text,
      },
      required: ['a', 'b', 'c', 'd', 'e', 'f', 'g'],
    }
    expect(exampleInput(schema)).toEqual({
      a: 1,
      b: 10,
      c: 'x',
      d: 7,
      e: ['text'],
      f: true,
      g: { h: 'text' },
    })
  })
})
