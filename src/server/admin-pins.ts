import { fault } from '#core/errors'
import type { PinDecided, PinDesk } from '#core/imports/pins'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault } from './http-fault.ts'
import { jsonReply } from './message-reply.ts'
import { type OperatorAccess, requireServerScope } from './operator-access.ts'
import { renderPin, renderPinDiff } from './render-pin.ts'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'

const SCOPE = 'admin:pins'
const NO_STORE = { 'cache-control': 'no-store' }

/** Pinned definitions over HTTP: for the start token, and for the scope `admin:pins`. */
export function createPinRoutes(desk: PinDesk, access: OperatorAccess): readonly ServerRoute[] {
  const handled = (handle: (request: HttpRequest) => Promise<HttpReply>) => {
    return async (request: HttpRequest): Promise<HttpReply> => {
      requireServerScope(request.principal, SCOPE, access)
      return await handle(request)
    }
  }
  const list = async ({ query }: HttpRequest): Promise<HttpReply> => {
    const views = await desk.list(query.get('source') ?? undefined)
    const pins =
      query.get('waiting') === 'true' ? views.filter(({ waiting }) => waiting !== undefined) : views
    return jsonReply(200, { pins: pins.map(renderPin) }, NO_STORE)
  }
  const diff = async ({ params }: HttpRequest): Promise<HttpReply> =>
    jsonReply(200, await diffOf(desk, toolOf(params)), NO_STORE)
  const decide = (verb: 'accept' | 'reject') => {
    return async ({ params, body, principal }: HttpRequest): Promise<HttpReply> => {
      const tool = toolOf(params)
      const { hash } = readBody(body, ['hash'])
      if (hash !== undefined && typeof hash !== 'string') throw wrong('`hash` is a text.')
      const answer = { by: principal.id, ...(hash === undefined ? {} : { hash }) }
      checkDecided(await desk[verb](tool, answer), tool)
      return jsonReply(200, await diffOf(desk, tool))
    }
  }
  const acceptAll = async ({ body, principal }: HttpRequest): Promise<HttpReply> => {
    const { source, suspicious = false } = readBody(body, ['source', 'suspicious'])
    if (typeof source !== 'string' || typeof suspicious !== 'boolean') {
      throw wrong('Send `{ "source": KEY }`, and `"suspicious": true` to let in suspicious changes too.')
    }
    return jsonReply(200, { accepted: await desk.acceptAll(source, { by: principal.id, suspicious }) })
  }
  const shared = {
    access: 'authenticated',
    authenticate: access.authenticate,
    refuse: refuseWithMessage,
  } as const
  return [
    { ...shared, method: 'GET', path: '/admin/pins', body: 'never', handle: handled(list) },
    { ...shared, method: 'GET', path: '/admin/pins/:tool', body: 'never', handle: handled(diff) },
    { ...shared, method: 'POST', path: '/admin/pins/accept', body: 'json', handle: handled(acceptAll) },
    {
      ...shared,
      method: 'POST',
      path: '/admin/pins/:tool/accept',
      body: 'json',
      handle: handled(decide('accept')),
    },
    {
      ...shared,
      method: 'POST',
      path: '/admin/pins/:tool/reject',
      body: 'json',
      handle: handled(decide('reject')),
    },
  ]
}

/** Sources serve every tenant, so one tenant's own operator does not decide about them. */
async function diffOf(desk: PinDesk, tool: string) {
  const diff = await desk.diff(tool)
  if (diff === undefined) throw httpFault(404, unknownPin(tool))
  return renderPinDiff(diff)
}

/** Throws unless it was decided; in words for whoever wanted it. */
export function checkDecided(decided: PinDecided, tool: string): void {
  switch (decided) {
    case 'decided':
      return
    case 'not_found':
      throw httpFault(404, unknownPin(tool))
    case 'not_waiting':
      throw httpFault(
        400,
        `Nothing waits for a decision about ${tool}: what the upstream offers is what is served.`,
      )
    case 'other_hash':
      throw httpFault(
        400,
        `Another change than the one you looked at waits for ${tool}. Look again: collet pins diff ${tool}`,
      )
  }
}

export function unknownPin(tool: string): string {
  return `No tool ${tool} is pinned; collet pins list shows those that are.`
}

function toolOf(params: Readonly<Record<string, string | undefined>>): string {
  return params.tool ?? ''
}

function readBody(body: JsonValue | undefined, members: readonly string[]): JsonObject {
  if (!isJsonObject(body)) throw wrong('Send a JSON object.')
  const stranger = Object.keys(body).find((name) => !members.includes(name))
  if (stranger !== undefined)
    throw wrong(`Only ${members.map((name) => `\`${name}\``).join(' and ')} may be sent.`)
  return body
}

function wrong(message: string): Error {
  return fault('request_invalid', message)
}
