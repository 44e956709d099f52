import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { ToolError, tool } from 'collet'
import { z } from 'zod'

const text = z.object({ text: z.string().describe('Any text.') })

export const shout = tool({
  id: 'Notes.Shout@1.0.0',
  description: 'Says it louder.',
  input: z.object({ text: z.string().transform((said) => said.toUpperCase()) }),
  output: z.string(),
  policy: { safetyTier: 'pure', replay: 'deterministic' },
  run: ({ text: said }) => `${said}!`,
})

export const others = [
  tool({
    id: 'Notes.Fail@1.0.0',
    description: 'Fails in the way it is told to.',
    input: text,
    output: {},
    run: ({ text: how }) => {
      if (how === 'say') throw new ToolError('The shelf is full.', { canRetry: true, retryAfterMs: 5 })
      if (how === 'exit') process.exit(3)
      throw new Error(`no such way: ${how}`)
    },
  }),
  tool({
    id: 'Notes.Wait@1.0.0',
    description: 'Waits until it is ended.',
    input: z.object({}),
    output: {},
    run: async (_, { signal }) => {
      await wait(60_000, undefined, { signal })
      return null
    },
  }),
  tool({
    id: 'Notes.Loop@1.0.0',
    description: 'Never lets go.',
    input: z.object({}),
    output: {},
    run: async (_, { progress }) => {
      progress(0)
      await wait(10)
      for (;;) Math.random()
    },
  }),
  tool({
    id: 'Notes.Leak@1.0.0',
    description: 'Takes memory until there is none.',
    input: z.object({}),
    output: {},
    run: () => {
      const held = []
      for (;;) held.push(new Array(100_000).fill(Math.random()).join())
    },
  }),
  tool({
    id: 'Notes.Read@1.0.0',
    description: 'Reads a file.',
    input: text,
    output: z.string(),
    run: ({ text: path }) => readFileSync(path, 'utf8'),
  }),
  tool({
    id: 'Notes.Context@1.0.0',
    description: 'Uses all that it is given.',
    input: text,
    output: {},
    requirements: { secrets: [{ id: 'pin' }], authorization: [{ id: 'shelf' }] },
    run: async ({ text: url }, context) => {
      context.progress(1, 2, 'half')
      context.log.info({ at: 'work' }, 'working')
      const answer = await context.fetch(url, { method: 'POST', body: 'hello', headers: { 'x-a': 'b' } })
      return {
        status: answer.status,
        body: await answer.text(),
        header: answer.headers.get('x-reply'),
        pin: context.secret('pin').reveal(),
        token: context.token('shelf').reveal(),
        caller: context.principal.id,
        user: context.userId,
        key: context.effectKey(),
        other: context.effectKey(1) === context.effectKey(),
        asked: await context.elicit({ mode: 'form', message: 'Sure?', schema: { type: 'object' } }),
        env: Object.keys(process.env),
      }
    },
  }),
]
