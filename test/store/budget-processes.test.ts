import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sized } from '../size.ts'

const CALLS = sized(1_000, 10_000)
const PROCESSES = 3
const KILLS = 4
/** A fiftieth of the budget, and the calls that ran. */
const LOST_BY_A_KILL = CALLS / 50 + 4
const LIMIT_MS = sized(240_000, 3_600_000)
const SCRIPT = fileURLToPath(new URL('budget-process.ts', import.meta.url))
const FLAGS = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-budget-'))
})

afterEach(() => {
  rmSync(folder, { recursive: true })
})

/** Resolves when the process makes calls. */
async function start(): Promise<ChildProcess> {
  const child = spawn(process.execPath, [...FLAGS, SCRIPT, folder, String(CALLS)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}

async function endOf(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  return child.exitCode
}

function effects(): number {
  const file = join(folder, 'effects.log')
  return existsSync(file) ? statSync(file).size : 0
}

/** Writes to a temporary file first, so that no reader sees a partial number. */
function allow(count: number): void {
  writeFileSync(join(folder, 'allowed.new'), String(count))
  renameSync(join(folder, 'allowed.new'), join(folder, 'allowed'))
}

async function effectsReach(count: number): Promise<void> {
  while (effects() < count) await new Promise((resolve) => setTimeout(resolve, 5))
}

describe('one budget and several processes', () => {
  it(
    'is never overspent although some are killed, and a kill loses at most the leased share',
    async () => {
      allow(0)
      let running = await Promise.all(Array.from({ length: PROCESSES }, start))
      for (let kill = 1; kill <= KILLS; kill += 1) {
        const due = (CALLS / 10) * kill
        // Slightly more than the test waits for, so that the kill happens while calls run.
        allow(due + CALLS / 20)
        await effectsReach(due)
        const [victim, ...others] = running
        if (victim === undefined) break
        expect(victim.exitCode).toBeNull()
        victim.kill('SIGKILL')
        await endOf(victim)
        running = [...others, await start()]
      }
      allow(Number.MAX_SAFE_INTEGER)
      expect(await Promise.all(running.map(endOf))).toEqual(Array(PROCESSES).fill(0))
      expect(effects()).toBeLessThanOrEqual(CALLS)
      expect(effects()).toBeGreaterThanOrEqual(CALLS - KILLS * LOST_BY_A_KILL)
      // Later processes find nothing left, except amounts that others returned at their end.
      await endOf(await start())
      expect(effects()).toBeLessThanOrEqual(CALLS)
    },
    LIMIT_MS,
  )
})
