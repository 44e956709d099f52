import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openStore } from '#store/stores'
import { receiptsOf, verified } from '../contracts/receipt-store-contract.ts'
import { createDatabase } from './databases.ts'

const masterKey = randomBytes(32)
const KILLS = 5

describe.each(['sqlite', 'postgres'] as const)('receipts on %s, whose servers are killed', (engine) => {
  let folder = ''
  let url = ''
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-receipts-'))
    url = engine === 'sqlite' ? `sqlite:${join(folder, 'collet.db')}` : await createDatabase('receipts')
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  /** Runs two servers on the store and kills both after some receipts; returns the files that they handed out. */
  async function runAndKill(files: number): Promise<readonly { records: readonly string[]; file: string }[]> {
    const handed: { records: readonly string[]; file: string }[] = []
    const program = fileURLToPath(new URL('receipts-process.ts', import.meta.url))
    const children = [0, 1].map(() =>
      spawn(
        process.execPath,
        [
          ...['--conditions=collet-source', '--disable-warning=ExperimentalWarning', program],
          ...[url, masterKey.toString('base64')],
        ],
        { stdio: ['ignore', 'pipe', 'inherit'], cwd: folder },
      ),
    )
    await Promise.all(
      children.map(async (child) => {
        for await (const line of createInterface({ input: child.stdout })) {
          // A line that the kill cut is no file that was handed out.
          if (line.endsWith('}')) handed.push(JSON.parse(line))
          if (handed.length >= files) for (const each of children) each.kill('SIGKILL')
        }
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
        expect(child.signalCode).toBe('SIGKILL')
      }),
    )
    return handed
  }

  it('every receipt stays valid, and later files continue the journal of earlier ones', async () => {
    const handed: { records: readonly string[]; file: string }[] = []
    for (let kill = 0; kill < KILLS; kill += 1) handed.push(...(await runAndKill(6)))
    const store = await openStore(url, { dataFolder: folder, masterKey, mode: 'server' })
    try {
      expect((await store.receiptKeys.list()).length).toBe(1)
      while (await store.blocks.makeSome(Date.now())) {
        // Until every group is in a block.
      }
      const earlier = await Promise.all(handed.map(({ file }) => verified(file)))
      const known = earlier.flatMap(({ lines }) =>
        lines.blocks.map((block) => ({ ...block, hash: lines.hashOf(block) })),
      )
      const records = handed.flatMap((one) => one.records)
      const linkedTo = known.map(({ writer, block }) => ({ writer, block }))
      const { lines, calls } = await verified(await receiptsOf(store, records, { linkedTo }))
      expect(calls.length).toBe(records.length)
      // Each block that was handed out is in the journal unchanged, also those made just before a kill.
      expect(known.filter((block) => lines.hashOf(block) !== block.hash)).toEqual([])
      expect((await store.verify()).ok).toBe(true)
    } finally {
      await store.close()
    }
  }, 120_000)
})
