import { expect } from 'vitest'
import type { JsonValue } from '#core/json'
import type { OtcOptions } from '#protocols/otc/index'
import { otcRoutes } from '#protocols/otc/routes'
import { FakeGateway, fakeTool } from './fake-gateway.ts'
import { OpenApiCheck } from './openapi-check.ts'
import { type FixtureTool, otcFixtures } from './otc-fixtures.ts'
import type { VectorResponse } from './otc-vectors.ts'
import { type RouteServerOptions, routeSend } from './route-server.ts'

export interface OtcTestServerOptions extends RouteServerOptions, Partial<OtcOptions> {
  readonly tools?: readonly FixtureTool[]
  readonly ready?: boolean
  readonly toolkits?: ReadonlyMap<string, string>
}

export interface JsonAnswer extends VectorResponse {
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  readonly json: any
}

const openApi = new OpenApiCheck()

/** The routes over the fixture tools; every answer is also checked against the OpenAPI document. */
export function otcTestServer(options: OtcTestServerOptions = {}) {
  const tools = options.tools ?? otcFixtures().tools
  const gateway = new FakeGateway({
    tools: tools.map(fakeTool),
    ...(options.ready === undefined ? {} : { ready: options.ready }),
    ...(options.toolkits === undefined ? {} : { toolkits: options.toolkits }),
  })
  const routes = otcRoutes(gateway, { serverVersion: '0.0.0-test', ...options })
  const send = routeSend(routes, {
    ...options,
    onAnswer: ({ method, path }, { status, text, headers }) => {
      if (headers['content-encoding'] === undefined) {
        expect(openApi.findings({ method, path, status, text })).toEqual([])
      }
      expect(headers['oxp-version']).toBe('1.0')
    },
  })
  const ask = async (method: string, path: string, sent: Sent = {}): Promise<JsonAnswer> => {
    const { headers = {}, body } = sent
    const response = await send({
      method,
      path,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    const isJson =
      response.headers['content-type'] === 'application/json' &&
      response.headers['content-encoding'] === undefined
    return { ...response, json: isJson ? JSON.parse(response.text) : undefined }
  }
  return { gateway, routes, ask }
}

export interface Sent {
  readonly headers?: Record<string, string>
  readonly body?: JsonValue
}
