import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { ToolError } from '#kernel/base/errors'
import { tool, workflow } from '#kernel/tool/define'
import { testTool } from './test-tool.ts'

const lookUp = tool({
  id: 'Crm.LookUp@1.0.0',
  description: 'Finds a customer.',
  input: { id: z.int().describe('Number of the customer.') },
  output: { name: z.string() },
  requirements: { secrets: [{ id: 'CRM_KEY' }] },
  policy: { safetyTier: 'read', scopes: ['crm:read'], approval: 'always' },
  async run({ id }, ctx) {
    ctx.log.info({ id }, 'looking')
    ctx.progress(1, 2, 'asking')
    const answer = await ctx.elicit({ mode: 'form', message: 'Sure?', schema: { type: 'object' } })
    if (answer.action !== 'accept') throw new ToolError('The user declined.', { canRetry: true })
    const response = await ctx.fetch(`https://crm.example/${id}`, {
      headers: { authorization: ctx.secret('CRM_KEY').reveal() },
    })
    return { name: await response.text() }
  },
})

const accept = { action: 'accept' } as const

describe('testTool', () => {
  it('runs a tool with stand-ins, and returns its value, its log and its progress', async () => {
    const sent: (string | null)[] = []
    const result = await testTool(
      lookUp,
      { id: 7 },
      {
        secrets: { CRM_KEY: 'k-123456' },
        elicit: accept,
        fetch: async (url, init) => {
          sent.push(String(url), new Headers(init?.headers).get('authorization'))
          return new Response('Ada')
        },
      },
    )
    if (!result.ok) throw new Error(result.error.message)
    expectTypeOf(result.value).toEqualTypeOf<{ name: string }>()
    expect(result).toMatchObject({
      value: { name: 'Ada' },
      logs: [{ level: 'info', message: 'looking', fields: { id: 7 } }],
      progress: [{ done: 1, total: 2, message: 'asking' }],
      questions: [{ message: 'Sure?' }],
    })
    expect(sent).toEqual(['https://crm.example/7', 'k-123456'])
  })

  it('refuses everything that the server would refuse', async () => {
    const secrets = { CRM_KEY: 'k-123456' }
    // @ts-expect-error: the types know that this is no number
    expect(await testTool(lookUp, { id: 'x' }, { secrets })).toMatchObject({
      ok: false,
      error: { code: 'input_invalid' },
    })
    expect(await testTool(lookUp, { id: 7 })).toMatchObject({ error: { code: 'requirement_missing' } })
    expect(await testTool(lookUp, { id: 7 }, { secrets })).toMatchObject({
      error: { code: 'tool_failed', message: 'The user declined.', canRetry: true },
    })
    const wrong = tool({ ...lookUp, requirements: {}, run: () => JSON.parse('{"name":1}') })
    expect(await testTool(wrong, { id: 7 })).toMatchObject({ error: { code: 'output_invalid' } })
    await expect(testTool(tool({ ...lookUp, id: 'look_up' }), { id: 7 })).rejects.toThrow("name: 'look_up'")
  })

  it('reports the thrown value and its location, and explains how to provide a network', async () => {
    const failing = tool({
      ...lookUp,
      requirements: {},
      run: async ({ id }, ctx) => {
        if (id === 1) throw 'oops'
        if (id === 2) throw new TypeError('broken')
        await ctx.fetch('https://crm.example/')
        return { name: '' }
      },
    })
    const messageOf = async (id: number) => {
      const result = await testTool(failing, { id })
      return result.ok ? '' : result.error.message
    }
    expect(await messageOf(1)).toBe('Crm.LookUp failed unexpectedly. For developers: oops')
    expect(await messageOf(2)).toMatch(/For developers: TypeError: broken$/)
    expect(await messageOf(3)).toContain('{ fetch: async (url) => … }')
    expect(await testTool(failing, { id: 2 })).toMatchObject({ thrown: expect.any(TypeError) })
  })

  it('runs a workflow with its steps', async () => {
    const greet = workflow({
      id: 'Crm.Greet@1.0.0',
      description: 'Greets a customer.',
      input: { id: z.int().describe('Number of the customer.') },
      output: z.string(),
      uses: [lookUp],
      run: async ({ id }, { call }) => `Hello ${(await call(lookUp, { id })).name}`,
    })
    const options = {
      secrets: { CRM_KEY: 'k-123456' },
      elicit: accept,
      fetch: async () => new Response('Ada'),
    }
    expect(await testTool(greet, { id: 7 }, options)).toMatchObject({ ok: true, value: 'Hello Ada' })
  })
})
