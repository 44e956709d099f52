import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import type { Principal } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import { PROTOCOLS } from '#protocols/list'
import type { ServedProtocol } from '#protocols/protocol'
import { createGateway, type Gateway } from '#server/create-gateway'
import { openServices } from '#server/services'
import { createLog } from '#server/telemetry/log'
import type { RunningGateway } from '#stages/open-gateway'
import { startApp, stopApps } from '../server/start-app.ts'
import { testSettings } from '../test-settings.ts'
import { MAX_RESULT_SIZE } from './differential-acts.ts'
import type { Batch } from './differential-calls.ts'
import { definitionOf, preparedTools } from './differential-tools.ts'

/** The base of every returned address, so that all lanes return equal addresses. */
const PUBLIC_URL = 'http://tools.example'

/** One server, the gateway behind it, and a separate gateway for code. */
export interface Stage {
  readonly url: string
  readonly gateway: RunningGateway
  /** Absent for tools of the host, which a config cannot hold. */
  readonly embedded: Gateway | undefined
  close(): Promise<void>
}

/** Each lane has its own principals: equal keys, but separate records. */
export function principalOf({ callers }: Batch, way: string, caller: number): Principal {
  const { tenant = '', scopes = [] } = callers[caller] ?? {}
  return { id: `key:${way} ${caller}`, tenant, scopes }
}

export function apiKeyOf(way: string, caller: number): string {
  return `key-of-${way}-${caller}`
}

/** The production gateway on the memory store, behind the real HTTP server with every protocol. */
export async function openStage(batch: Batch, ways: readonly string[]): Promise<Stage> {
  const settings = testSettings({
    tools: preparedTools(batch.tools, batch.isHost),
    calls: { retentionHours: 24, defaultTimeoutMs: 60_000, maxResultBytes: MAX_RESULT_SIZE },
  })
  const log = createLog('silent')
  const { gateway, close } = await openServices(settings, {
    clock: SYSTEM_CLOCK,
    log,
    publicUrl: () => PUBLIC_URL,
    onCommit: () => {},
  })
  const protocols: readonly ServedProtocol[] = await Promise.all(
    Object.values(PROTOCOLS).map((protocol) =>
      protocol.serve(settings, {
        ...{ gateway, store: gateway.store, clock: SYSTEM_CLOCK, log, isClosed: true },
        serverVersion: '0.0.0-test',
        publicUrl: () => PUBLIC_URL,
      }),
    ),
  )
  const routes = protocols.flatMap((served) => served.routes)
  const apiKeys = ways.flatMap((way) =>
    batch.callers.map(({ tenant, scopes }, caller) => {
      const id = principalOf(batch, way, caller).id.slice('key:'.length)
      return { id, key: new Secret(apiKeyOf(way, caller)), tenant, scopes }
    }),
  )
  const { url } = await startApp({ routes, auth: { apiKeys, jwt: undefined } })
  const folder = mkdtempSync(join(tmpdir(), 'collet-test-'))
  const embedded = batch.isHost ? undefined : await embeddedGateway(batch, folder)
  return {
    url,
    gateway,
    embedded,
    async close() {
      await stopApps()
      await Promise.all([close(), embedded?.close()])
      for (const used of [folder, settings.dataFolder]) rmSync(used, { recursive: true })
    },
  }
}

function embeddedGateway({ tools }: Batch, folder: string): Promise<Gateway> {
  return createGateway(
    {
      tools: tools.map(definitionOf),
      store: 'memory:',
      server: { publicUrl: PUBLIC_URL },
      calls: { maxResultBytes: MAX_RESULT_SIZE },
      log: { level: 'silent' },
      acknowledgeLaxerVersions: tools.map((plan) => definitionOf(plan).id),
    },
    { folder },
  )
}
