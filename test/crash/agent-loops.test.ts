import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serve } from 'collet'
import { afterAll, describe, expect, it } from 'vitest'
import { LOOPS } from '../agents/loops.ts'
import { type Plan, startProvider } from '../agents/provider.ts'
import { makeShop } from '../agents/shop.ts'

/**
 * Agent loops that are killed at every step and started again, in every library. A step is a request to the model, or an effect
 * whose reply the loop never gets. `resumed`: the loop begins with its saved state. `retried`: it starts over, so the model makes
 * all its calls again under other ids.
 */

const MAIL = { name: 'Shop_Mail', input: { to: 'ann@example.com' } }
const PAY = { name: 'Shop_Pay', input: { invoice_id: '17', memo: 'rent' } }
const PLAN: Plan = [[MAIL, MAIL], [PAY], [MAIL]]
const INTENDED = ['mail ann@example.com', 'mail ann@example.com', 'mail ann@example.com', 'pay 17 rent']
/** Requests to the model and effects of a loop that is not killed. */
const STEPS = PLAN.length + 1 + INTENDED.length

const folder = mkdtempSync(join(tmpdir(), 'collet-agents-'))
afterAll(() => rmSync(folder, { recursive: true }))

interface Outcome {
  readonly kills: number
  readonly effects: readonly string[]
}

/** Runs a loop to its end, and kills it at the steps that `isKilled` names, counted over all its processes. */
async function runKilled(
  library: string,
  name: string,
  kept: boolean,
  isKilled: (step: number) => boolean,
): Promise<Outcome> {
  let child: ChildProcess | undefined
  let step = 0
  let kills = 0
  const onStep = async (): Promise<void> => {
    step += 1
    const running = child
    if (!isKilled(step) || running === undefined) return
    child = undefined
    kills += 1
    running.kill('SIGKILL')
    await once(running, 'exit')
  }
  const shop = makeShop(onStep)
  const options = { store: 'memory:', server: { port: 0 }, log: { level: 'silent' } } as const
  const server = await serve({ tools: shop.tools, ...options })
  const provider = await startProvider(PLAN, { onRequest: onStep })
  try {
    for (let start = 0; ; start += 1) {
      const file = join(folder, `${name}-${kept ? 0 : start}`)
      child = spawn(process.execPath, [...FLAGS, PROGRAM, library, file, server.url, provider.url], {
        stdio: ['ignore', 'ignore', 'inherit'],
      })
      const [code] = await once(child, 'exit')
      if (code === 0) return { kills, effects: shop.effects.toSorted() }
      expect(code, 'a loop that is not killed ends well').toBe(null)
    }
  } finally {
    await provider.close()
    await server.close()
  }
}

const FLAGS = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
const PROGRAM = join(import.meta.dirname, '../agents/loop-process.ts')
const rows: string[] = []

describe.each(Object.keys(LOOPS))('%s', (library) => {
  it.each(['resumed', 'retried'] as const)(
    'has one effect for each intention when it is killed and %s',
    async (way) => {
      const counts = { runs: 0, kills: 0, effects: 0, lost: 0, doubled: 0 }
      const note = ({ kills, effects }: Outcome): void => {
        counts.runs += 1
        counts.kills += kills
        counts.effects += effects.length
        for (const effect of new Set(INTENDED)) {
          const difference =
            effects.filter((each) => each === effect).length -
            INTENDED.filter((each) => each === effect).length
          counts.doubled += Math.max(0, difference)
          counts.lost += Math.max(0, -difference)
        }
      }
      for (let at = 1; at <= STEPS; at += 1)
        note(await runKilled(library, `${library}-${way}-${at}`, way === 'resumed', (step) => step === at))
      // Every process dies at its next step, until as many have died as there are steps.
      note(await runKilled(library, `${library}-${way}-all`, way === 'resumed', everyOther(STEPS)))
      rows.push(`${library}, ${way}: ${JSON.stringify(counts)}`)
      expect(counts).toMatchObject({ lost: 0, doubled: 0, effects: counts.runs * INTENDED.length })
      expect(counts.kills).toBeGreaterThanOrEqual(STEPS)
    },
  )
})

/** Two steps are reached between kills, so that a loop that starts over makes progress. */
function everyOther(times: number) {
  let killed = 0
  return (step: number): boolean => {
    if (step % 2 === 1 || killed >= times) return false
    killed += 1
    return true
  }
}

afterAll(() => {
  process.stdout.write(`${rows.join('\n')}\n`)
})
