import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs'

/** The tools of the test, by what may happen to their calls after a crash. */
export const EFFECT_TOOLS = {
  'Effect.Write@1.0.0': { repeatable: false, stateful: false },
  'Effect.Idempotent@1.0.0': { repeatable: true, stateful: false },
  'Effect.Flaky@1.0.0': { repeatable: false, stateful: false },
  'Effect.Look@1.0.0': { repeatable: true, stateful: false },
  'Effect.Counter@1.0.0': { repeatable: false, stateful: true },
  'Effect.Approved@1.0.0': { repeatable: false, stateful: false },
} as const

export type EffectTool = keyof typeof EFFECT_TOOLS

/** One effect of a tool outside the store. */
export interface Effect {
  readonly key: string
  /** Created by the run itself: distinguishes two runs of one key. */
  readonly nonce: string
}

/** The nonce of a stateful run: the session whose state it used, and its count. */
export function counterNonce(sessionId: string, count: number): string {
  return `${sessionId}#${count}`
}

/** On disk when this returns, and outside the store, so that no rollback of the database undoes it. */
export function appendEffect(file: string, effect: Effect): void {
  const descriptor = openSync(file, 'a')
  try {
    writeSync(descriptor, `${effect.key} ${effect.nonce}\n`)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

export function readEffects(file: string): readonly Effect[] {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.filter((line) => line !== '').map(parseEffect)
}

function parseEffect(line: string): Effect {
  const [, key, nonce] = /^(\S+) (\S+)$/.exec(line) ?? []
  if (key === undefined || nonce === undefined) throw new Error(`Expected "KEY NONCE", got "${line}".`)
  return { key, nonce }
}
