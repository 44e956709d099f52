import { readFileSync } from 'node:fs'
import { expect, vi } from 'vitest'
import { z } from 'zod'
import type { RunningServer } from '#server/start-server'

const SOURCES = z.object({ sources: z.array(z.object({ key: z.string(), state: z.string() })) })

/** Resolves when the server has read its sources. The server itself waits only three seconds, which is too short on a busy machine. */
export async function untilSourcesRead({ url, startTokenFile }: RunningServer): Promise<void> {
  const authorization = `Bearer ${readFileSync(startTokenFile, 'utf8').trim()}`
  await vi.waitFor(
    async () => {
      const response = await fetch(`${url}/admin/sources`, { headers: { authorization } })
      const { sources } = SOURCES.parse(await response.json())
      expect(sources.filter(({ state }) => state === 'starting')).toEqual([])
    },
    { timeout: 30_000, interval: 50 },
  )
}
