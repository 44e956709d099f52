import { setTimeout as wait } from 'node:timers/promises'
import { ToolError } from '#kernel/base/errors'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { Tool } from '#kernel/tool/tool'

/** In the inputs, outputs, errors and credentials of calls, and in no event (OWP-43, OWP-52). */
export const RUN_CANARY = 'canary-0b6e41'

export interface RunTools {
  readonly tools: readonly Tool[]
  /** Actions that really happened, in order. */
  readonly done: string[]
  /** States of `Box.Hang`, which arrive after every timeout. */
  readonly hung: { asked: number; letGo: number }
}

const text = { type: 'string', description: 'A text.' } as const
const input = { type: 'object', properties: { text } } as const

/** Tools with and without effects, state and faults, which record their actions. */
export function runTools(): RunTools {
  const done: string[] = []
  const hung = { asked: 0, letGo: 0 }
  const did = (what: string) => () => done.push(what)
  const made = (id: string, more: object) => ({
    id: `${id}@1.0.0`,
    description: `Does ${id}.`,
    input,
    output: {},
    run: did(id),
    ...more,
  })
  const keeps = (id: string, more: object = {}) => ({
    open: () => {
      done.push(`open ${id}`)
      return []
    },
    close: () => {
      done.push(`close ${id}`)
    },
    idleMs: 60_000,
    ...more,
  })
  const push = ({ text: said }: { text?: string }, { session }: { session: unknown[] }) => {
    done.push('push')
    session.push(said ?? null)
    return session
  }
  const tools = requireTools([
    made('Echo.Say', {
      policy: { safetyTier: 'read' },
      run: ({ text: said }: { text?: string }) => ({ said: said ?? null }),
    }),
    made('Echo.Write', {}),
    made('Echo.Fail', {
      run: () => {
        throw new ToolError(`No: ${RUN_CANARY}`, { developerMessage: RUN_CANARY })
      },
    }),
    made('Echo.Throw', {
      run: () => {
        throw new Error(RUN_CANARY)
      },
    }),
    made('Echo.Secret', { requirements: { secrets: [{ id: 'KEY' }], authorization: [{ id: 'mail' }] } }),
    made('Echo.Again', {
      run: () => {
        throw new ToolError('Not yet.', { canRetry: true })
      },
    }),
    made('Box.Push', { session: keeps('Box.Push'), run: push }),
    made('Box.Other', { session: keeps('Box.Other'), run: push }),
    made('Box.Wait', {
      session: keeps('Box.Wait'),
      run: (_input: unknown, { signal }: { signal: AbortSignal }) => {
        done.push('waiting')
        return wait(60_000, undefined, { signal })
      },
    }),
    made('Box.Refuse', {
      session: keeps('Box.Refuse', {
        open: () => {
          throw new Error(RUN_CANARY)
        },
      }),
    }),
    made('Box.Hang', {
      policy: { timeoutMs: 100 },
      session: keeps('Box.Hang', {
        open: async () => {
          hung.asked += 1
          await wait(200)
          return []
        },
        close: () => {
          hung.letGo += 1
        },
      }),
    }),
    made('Box.BadClose', {
      session: keeps('Box.BadClose', {
        close: () => {
          done.push('close Box.BadClose')
          throw new Error(RUN_CANARY)
        },
      }),
    }),
  ])
  return { tools, done, hung }
}
