import fc from 'fast-check'
import { ToolError } from '#kernel/base/errors'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import type { StatefulContext } from '#kernel/tool/tool'
import { anyJson, schemaPart } from './differential-schemas.ts'

/** The behaviour of a tool: a function of its input and context only, so that every lane must see equal results. */
export interface Act {
  readonly label: string
  readonly output: JsonObject | null
  readonly timeoutMs?: number
  readonly run: (input: JsonObject, context: Context) => unknown
}

export type Context = StatefulContext<{ uses: number } | undefined>

export const MAX_RESULT_SIZE = 4_096
export const PROVIDERS = ['google', 'x-y'] as const
export const SECRETS = ['API_KEY', 'b.c'] as const

const TITLES = [undefined, 'sum', 'not a name', '__proto__', 'a-b_9']
const TIMEOUT_MS = 4

export const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(...TITLES).map(echo) },
  { weight: 4, arbitrary: fc.tuple(anyJson, fc.constantFrom(...TITLES)).map(constant) },
  {
    weight: 3,
    arbitrary: schemaPart.chain(({ schema, fitting }) => fitting.map((value) => typed(schema, value))),
  },
  { weight: 1, arbitrary: fc.constant<Act>({ label: 'no output', output: null, run: () => 'dropped' }) },
  { weight: 1, arbitrary: fc.constant<Act>({ label: 'undefined', output: {}, run: () => undefined }) },
  {
    weight: 1,
    arbitrary: fc.constant<Act>({ label: 'misfit', output: { type: 'integer' }, run: () => 'x' }),
  },
  { weight: 1, arbitrary: fc.constantFrom(1n, Number.NaN, Symbol('s')).map(notJson) },
  {
    weight: 2,
    arbitrary: fc.constant<Act>({ label: 'large', output: {}, run: () => 'ä'.repeat(MAX_RESULT_SIZE) }),
  },
  { weight: 4, arbitrary: statedFailure() },
  { weight: 1, arbitrary: fc.constantFrom(new Error('boom in /etc/x'), 'text', undefined).map(plainFailure) },
  { weight: 2, arbitrary: fc.boolean().map(timeout) },
)

function echo(title: string | undefined): Act {
  return {
    label: 'echo',
    output: title === undefined ? {} : { title },
    run: (input, { userId = null, claimedUserId = null, session }) => {
      if (session !== undefined) session.uses += 1
      return { input, userId, claimedUserId, uses: session?.uses ?? null }
    },
  }
}

function constant([value, title]: [JsonValue, string | undefined]): Act {
  return {
    label: `gives ${JSON.stringify(value)}`,
    output: title === undefined ? {} : { title },
    run: () => value,
  }
}

function typed(output: JsonObject, value: JsonValue): Act {
  return { label: `gives ${JSON.stringify(value)}`, output, run: () => value }
}

function notJson(value: unknown): Act {
  return { label: `gives ${String(value)}`, output: {}, run: () => value }
}

/** A failure with every member that an author can set; its text repeats a credential, which must be redacted. */
function statedFailure(): fc.Arbitrary<Act> {
  const options = fc.record(
    {
      developerMessage: fc.constantFrom('for developers', 'größer 😀'),
      canRetry: fc.boolean(),
      retryAfterMs: fc.constantFrom(0, 1.5, 2_000, -3, Number.NaN, Number.POSITIVE_INFINITY, 1e12),
      additionalPromptContent: fc.constantFrom('try "a"', '\u2028'),
      errorNumber: fc.constantFrom(7, -1, 405, 1.5, 0),
    },
    { requiredKeys: [] },
  )
  return fc
    .tuple(fc.constantFrom('Broken.', '', 'Zeile 1\nZeile 2 "😀"'), options)
    .map(([message, reported]) => ({
      label: `throws ${JSON.stringify([message, reported])}`,
      output: {},
      run: (_input, context) => {
        throw new ToolError(message + credentialsOf(context), reported)
      },
    }))
}

function credentialsOf(context: Context): string {
  const given = [
    ...PROVIDERS.map((id) => () => context.token(id)),
    ...SECRETS.map((id) => () => context.secret(id)),
  ]
  return given
    .map((read) => {
      try {
        return read().reveal()
      } catch {
        return ''
      }
    })
    .join('')
}

function plainFailure(thrown: unknown): Act {
  return {
    label: `throws ${String(thrown)}`,
    output: {},
    run: () => {
      throw thrown
    },
  }
}

/** Never ends, or ends only after its abort signal: a late answer. */
function timeout(isLate: boolean): Act {
  return {
    label: isLate ? 'answers late' : 'never answers',
    output: {},
    timeoutMs: TIMEOUT_MS,
    run: (_input, { signal }) =>
      new Promise((resolve) => {
        if (isLate) signal.addEventListener('abort', () => resolve('late'), { once: true })
      }),
  }
}
