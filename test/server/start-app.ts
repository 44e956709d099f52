import { createAuthenticator } from '#auth/authenticator'
import type { Settings } from '#config/settings'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { Secret } from '#kernel/base/secret'
import type { HttpRequest } from '#protocols/http-exchange'
import { createHttpApp, type HttpApp, type HttpAppOptions } from '#server/http/app'
import { jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { createLog } from '#server/telemetry/log'
import { createMetrics } from '#server/telemetry/metrics'

export const KEY = 'k-alice'

export const WITH_KEY: Settings['auth'] = {
  apiKeys: [{ id: 'alice', key: new Secret(KEY), tenant: 'acme', scopes: ['metrics:read'] }],
  jwt: undefined,
}

export interface TestApp {
  readonly url: string
  readonly port: number
  readonly app: HttpApp
  /** Every request to the route, in order. */
  readonly seen: HttpRequest[]
  /** Log lines of the server. */
  readonly logged: string[]
}

export interface TestAppOptions extends Partial<Omit<HttpAppOptions, 'settings'>> {
  readonly auth?: Settings['auth']
  readonly settings?: Partial<Settings['server']>
  readonly logLevel?: Settings['logLevel']
}

const running: HttpApp[] = []

export async function startApp(options: TestAppOptions = {}): Promise<TestApp> {
  const seen: HttpRequest[] = []
  const logged: string[] = []
  const app = createHttpApp({
    routes: echoRoutes(seen),
    authenticator: createAuthenticator(options.auth ?? { apiKeys: [], jwt: undefined }, SYSTEM_CLOCK),
    log: createLog(options.logLevel ?? 'warn', { write: (line) => logged.push(line) }),
    metrics: createMetrics(),
    clock: SYSTEM_CLOCK,
    ...options,
    settings: {
      host: '127.0.0.1',
      port: 0,
      publicUrl: undefined,
      bodyLimitBytes: 1_000_000,
      allowedOrigins: [],
      maxConnections: 10_000,
      ...options.settings,
    },
  })
  running.push(app)
  const url = await app.listen()
  return { url, port: Number(new URL(url).port), app, seen, logged }
}

export async function stopApps(): Promise<void> {
  await Promise.all(running.splice(0).map((app) => app.close()))
}

/** A small protocol: answers with the request, and refuses with the error code. */
export function echoRoutes(seen: HttpRequest[] = []): readonly ServerRoute[] {
  const handle = (request: HttpRequest) => {
    seen.push(request)
    const { method, path, params, body, principal, traceId } = request
    const query = Object.fromEntries(request.query)
    return jsonReply(200, {
      method,
      path,
      params,
      query,
      body: body ?? null,
      principal: principal.id,
      traceId,
    })
  }
  const shared = { handle, refuse: refuseWithCode } as const
  return [
    { ...shared, method: 'GET', path: '/health', access: 'open', body: 'never' },
    { ...shared, method: 'GET', path: '/tools', access: 'authenticated', body: 'json' },
    { ...shared, method: 'POST', path: '/tools/call', access: 'authenticated', body: 'json' },
    { ...shared, method: 'GET', path: '/calls/:id', access: 'authenticated', body: 'never' },
    { ...shared, method: 'DELETE', path: '/calls/:id', access: 'authenticated', body: 'json' },
  ]
}

export const refuseWithCode: ServerRoute['refuse'] = (_request, error, status) =>
  jsonReply(status, { message: error.message, code: error.code })

/** A GET route whose handler comes from the test. */
export function openRoute(path: string, handle: ServerRoute['handle'], refuse = refuseWithCode): ServerRoute {
  return { method: 'GET', path, access: 'open', body: 'never', handle, refuse }
}

/** A route whose replies wait until the test releases them. */
export function heldRoute(): { route: ServerRoute; release: () => void; entered: Promise<void> } {
  const gate = Promise.withResolvers<void>()
  const entered = Promise.withResolvers<void>()
  const route: ServerRoute = {
    method: 'POST',
    path: '/held',
    access: 'open',
    body: 'json',
    async handle() {
      entered.resolve()
      await gate.promise
      return jsonReply(200, { done: true })
    },
    refuse: refuseWithCode,
  }
  return { route, release: gate.resolve, entered: entered.promise }
}
