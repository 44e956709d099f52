import { rmSync } from 'node:fs'
import { onTestFinished } from 'vitest'
import type { Settings } from '#config/settings'
import { createGuardedFetch } from '#egress/guarded-fetch'
import { type RunningServer, startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'
import { servicesOf } from './sample-invocation.ts'

/** A real server of this package as an upstream, closed with its test. */
export async function startUpstream(changes: Partial<Settings>): Promise<RunningServer> {
  const settings = testSettings(changes)
  const server = await startServer(settings, { graceMs: 0 })
  onTestFinished(async () => {
    await server.close()
    rmSync(settings.dataFolder, { recursive: true, force: true })
  })
  return server
}

/** The real egress, which may reach one local address because the operator named it (rule 33). */
export function servicesTo(url: string, watch: (path: string, init: RequestInit) => void = () => {}) {
  const guarded = createGuardedFetch({ allow: [new URL(url).host] })
  onTestFinished(() => guarded.close())
  const send: typeof fetch = async (input, init = {}) => {
    watch(new URL(String(input)).pathname, init)
    return await guarded(input, init)
  }
  return servicesOf({ fetch: send })
}
