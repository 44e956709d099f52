/** The workflow of the test, and the effects that one call of it must have: each exactly once. */
export const FLOW = 'Effect.Flow@1.0.0'

const STEPS = ['first', 'left', 'right', 'last'] as const
export type FlowStep = (typeof STEPS)[number]

/** The key under which a step's effect is logged. */
export function effectKey(flow: string, step: FlowStep): string {
  return `${flow}:${step}`
}

export function effectKeys(flow: string): readonly string[] {
  return STEPS.map((step) => effectKey(flow, step))
}
