import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { tool } from '#kernel/tool/define'
import { createGateway } from '#server/create-gateway'

/** Calls a tool under a budget from a separate process until nothing is left, and records each execution. */
const [folder = '', calls = '0'] = process.argv.slice(2)
const mark = tool({
  id: 'Effect.Mark@1.0.0',
  description: 'Writes a line.',
  input: {},
  output: {},
  run: async () => {
    appendFileSync(`${folder}/effects.log`, 'x')
    await wait(20)
    return null
  },
})
const gateway = await createGateway(
  {
    tools: [mark],
    log: { level: 'silent' },
    budgets: [{ for: 'principal', window: '31d', calls: Number(calls) }],
  },
  { folder },
)
process.stdout.write('ready\n')

/** Whether the test allows more effects: it kills in the middle, also on a slow machine. */
function isAllowed(): boolean {
  const done = statSync(`${folder}/effects.log`, { throwIfNoEntry: false })?.size ?? 0
  return done < Number(readFileSync(`${folder}/allowed`, 'utf8'))
}

async function callUntilRefused(): Promise<void> {
  for (;;) {
    while (!isAllowed()) await wait(2)
    const outcome = await gateway.call('Effect.Mark', {})
    if (!outcome.ok && outcome.error.code === 'budget_exceeded') return
  }
}

await Promise.all(Array.from({ length: 4 }, callUntilRefused))
await gateway.close()
