import type { Batch } from './differential-calls.ts'

export interface Found {
  readonly path: string
  readonly expected: unknown
  readonly actual: unknown
}

/** The first place where two values differ, as a path; `undefined` for equal ones. Absent and `undefined` are equal. */
export function firstDifference(expected: unknown, actual: unknown, path = ''): Found | undefined {
  if (Object.is(expected, actual)) return undefined
  if (!isObject(expected) || !isObject(actual) || Array.isArray(expected) !== Array.isArray(actual)) {
    return { path, expected, actual }
  }
  for (const name of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    const found = firstDifference(own(expected, name), own(actual, name), `${path}/${name}`)
    if (found !== undefined) return found
  }
  return undefined
}

function own(object: object, name: string): unknown {
  return Object.getOwnPropertyDescriptor(object, name)?.value
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Two lanes with different results of a call. */
export class Disagreement extends Error {
  override readonly name = 'Disagreement'

  constructor(
    batch: Batch,
    index: number,
    reported: { readonly way: string; readonly reference: string; readonly found: Found },
  ) {
    const { way, reference, found } = reported
    const call = batch.calls[index]
    const tools = batch.tools.filter(({ base }) => base === call?.base)
    const { caller = 0 } = call ?? {}
    super(
      [
        `${way} differs from ${reference} in ${found.path || 'everything'}`,
        `  ${reference}: ${text(found.expected)}`,
        `  ${way}: ${text(found.actual)}`,
        `  call ${index}: ${text(call)}`,
        `  caller: ${text(batch.callers[caller])}`,
        ...tools.map(({ input, act, ...plan }) => {
          const does = `${act.label}, output ${text(act.output)}`
          return `  tool: ${text({ ...plan, input: input.schema })}, ${does}`
        }),
        `  calls before it: ${
          batch.calls
            .slice(Math.max(0, index - 5), index)
            .map(text)
            .join('\n    ') || 'none'
        }`,
      ].join('\n'),
    )
  }
}

function text(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value)
}
