import { expect } from 'vitest'
import type { Settings } from '#config/settings'
import { type Clock, SYSTEM_CLOCK } from '#kernel/base/clock'
import type { JsonValue } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { Registry } from '#kernel/tool/catalog'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { HttpRoute } from '#protocols/http-exchange'
import { otcRoutes } from '#protocols/otc/routes'
import type { OtcOptions } from '#protocols/otc/settings'
import { RoutePath } from '#server/http/router'
import type { RunningGateway } from '#stages/open-gateway'
import type { Store } from '#store/collet-store'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { openTestGateway } from '#testing/test-gateway'
import { startApp, stopApps } from '../server/start-app.ts'
import { httpSend } from './http-send.ts'
import { OpenApiCheck } from './openapi-check.ts'
import { type FixtureTool, otcFixtures } from './otc-fixtures.ts'
import type { VectorResponse } from './otc-vectors.ts'

export interface OtcTestServerOptions extends Partial<OtcOptions> {
  readonly tools?: readonly FixtureTool[]
  readonly toolkits?: ReadonlyMap<string, string>
  readonly store?: Store
  readonly clock?: Clock
  /** Knows the keys `k-alice` and `k-bob`. */
  readonly apiKeys?: boolean
  /** False: the server drains from the start. */
  readonly ready?: boolean
}

interface JsonAnswer extends VectorResponse {
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  readonly json: any
}

export interface OtcTestServer {
  readonly gateway: RunningGateway
  readonly routes: readonly HttpRoute[]
  /** Invocations of the fixture tools so far, by full tool id. */
  readonly runs: ReadonlyMap<string, number>
  ask(method: string, path: string, sent?: Sent): Promise<JsonAnswer>
}

interface Sent {
  readonly headers?: Record<string, string>
  readonly body?: JsonValue
}

const openApi = new OpenApiCheck()
const gateways: RunningGateway[] = []

/**
 * The protocol on the real pipeline and store behind the real HTTP server, with options that a config cannot set.
 * Every answer is also checked against the OpenAPI document.
 */
export async function otcTestServer(options: OtcTestServerOptions = {}): Promise<OtcTestServer> {
  const { tools: definitions, runs } =
    options.tools === undefined ? otcFixtures() : { tools: options.tools, runs: new Map<string, number>() }
  const gateway = openTestGateway([], {
    registry: new Registry(requireTools(definitions), options.toolkits),
    store: options.store ?? openMemoryStore(),
    clock: options.clock ?? SYSTEM_CLOCK,
  })
  gateways.push(gateway)
  if (options.ready === false) await gateway.drain(0)
  const routes = otcRoutes(gateway, { serverVersion: '0.0.0-test', ...options })
  const { url } = await startApp({ routes, auth: authOf(options) })
  const send = httpSend(url)
  const ask = async (method: string, path: string, sent: Sent = {}): Promise<JsonAnswer> => {
    const { headers = {}, body } = sent
    const response = await send({
      method,
      path,
      headers: body === undefined ? headers : { 'Content-Type': 'application/json', ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    checkDocumented(routes, { method, path, ...response })
    const isJson = response.headers['content-type'] === 'application/json'
    return { ...response, json: isJson && response.text !== '' ? JSON.parse(response.text) : undefined }
  }
  return { gateway, routes, runs, ask }
}

export async function stopOtcServers(): Promise<void> {
  await stopApps()
  await Promise.all(gateways.splice(0).map((gateway) => gateway.drain(0)))
}

function authOf({ apiKeys }: OtcTestServerOptions): Settings['auth'] {
  const ids = apiKeys === true ? ['alice', 'bob'] : []
  return {
    apiKeys: ids.map((id) => ({ id, key: new Secret(`k-${id}`), tenant: 'default', scopes: [] })),
    jwt: undefined,
  }
}

function checkDocumented(
  routes: readonly HttpRoute[],
  answer: VectorResponse & { readonly method: string; readonly path: string },
): void {
  const { pathname } = new URL(answer.path, 'http://127.0.0.1')
  const route = routes.find(
    ({ method, path }) => method === answer.method && new RoutePath(path).match(pathname) !== undefined,
  )
  if (route === undefined) return
  const { status, text, headers } = answer
  if (status !== 304) {
    expect(openApi.findings({ method: route.method, path: route.path, status, text })).toEqual([])
  }
  expect(headers['oxp-version']).toBe('1.0')
}
