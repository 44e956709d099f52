import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault, jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { PinDiff, PinView } from '#sources/kit/pin-view'
import type { PinDecided, Pins } from '#sources/kit/pins'
import type { Difference } from '#sources/kit/schema-diff'
import {
  adminRoute,
  badRequest,
  momentOf,
  NO_STORE,
  type OperatorAccess,
  requireServerScope,
} from './access.ts'

const SCOPE = 'admin:pins'
/**
 * Pinned definitions over HTTP: for the start token, and for the scope `admin:pins`. Sources serve every tenant, so one
 * tenant's own operator does not decide about them.
 */
export function createPinRoutes(pins: Pins, access: OperatorAccess): readonly ServerRoute[] {
  const route = (
    method: 'GET' | 'POST',
    path: string,
    handle: (request: HttpRequest) => Promise<HttpReply>,
  ): ServerRoute =>
    adminRoute(access, method, `/admin/pins${path}`, (request) => {
      requireServerScope(request.principal, SCOPE, access)
      return handle(request)
    })
  const decide =
    (verb: 'accept' | 'reject') =>
    async ({ params, body, principal }: HttpRequest): Promise<HttpReply> => {
      const tool = params.tool ?? ''
      const { hash } = readMembers(body, ['hash'])
      if (hash !== undefined && typeof hash !== 'string') throw badRequest('`hash` is a text.')
      const answer = { by: principal.id, ...(hash === undefined ? {} : { hash }) }
      checkDecided(await pins[verb](tool, answer), tool)
      return jsonReply(200, await diffOf(pins, tool))
    }
  return [
    route('GET', '', async ({ query }) => {
      const all = await pins.list(query.get('source') ?? undefined)
      const isShown = ({ waiting }: PinView): boolean =>
        waiting !== undefined || query.get('waiting') !== 'true'
      return jsonReply(200, { pins: all.filter(isShown).map(renderPin) }, NO_STORE)
    }),
    route('GET', '/:tool', async ({ params }) =>
      jsonReply(200, await diffOf(pins, params.tool ?? ''), NO_STORE),
    ),
    route('POST', '/accept', async ({ body, principal }) => {
      const { source, suspicious = false, hashes } = readMembers(body, ['source', 'suspicious', 'hashes'])
      if (typeof source !== 'string' || typeof suspicious !== 'boolean') {
        throw badRequest(
          'Send `{ "source": KEY }`, and `"suspicious": true` to accept suspicious changes too.',
        )
      }
      const seen = readHashes(hashes)
      const { accepted, changed } = await pins.acceptAll(source, {
        ...{ by: principal.id, suspicious },
        ...(seen === undefined ? {} : { hashes: seen }),
      })
      if (changed.length > 0) throw httpFault(400, changedSince(source, changed))
      return jsonReply(200, { accepted })
    }),
    route('POST', '/:tool/accept', decide('accept')),
    route('POST', '/:tool/reject', decide('reject')),
  ]
}

async function diffOf(pins: Pins, tool: string) {
  const diff = await pins.diff(tool)
  if (diff === undefined) throw httpFault(404, unknownPin(tool))
  return renderPinDiff(diff)
}

/** Throws why nothing was decided, unless something was. */
function checkDecided(decided: PinDecided, tool: string): void {
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
        `The change that waits for ${tool} is not the one you looked at. Look again: collet pins diff ${tool}`,
      )
  }
}

/** Hashes of the changes that were looked at, by tool; `undefined` when none were sent. */
function readHashes(hashes: JsonValue | undefined): ReadonlyMap<string, string> | undefined {
  if (hashes === undefined) return undefined
  const wrong = 'Send `hashes` as an object: the hash of the waiting change for each tool.'
  if (!isJsonObject(hashes)) throw badRequest(wrong)
  return new Map(
    Object.entries(hashes).map(([tool, hash]) => {
      if (typeof hash !== 'string') throw badRequest(wrong)
      return [tool, hash]
    }),
  )
}

function changedSince(source: string, tools: readonly string[]): string {
  const [first = '', ...others] = tools
  const named = others.length === 0 ? first : `${first} and ${others.length} more`
  return `Nothing was accepted: the change that waits for ${named} is not the one you looked at. Look again: collet pins list --source ${source}`
}

function unknownPin(tool: string): string {
  return `No tool ${tool} is pinned; collet pins list --all shows those that are.`
}

function readMembers(body: JsonValue | undefined, members: readonly string[]): JsonObject {
  if (!isJsonObject(body)) throw badRequest('Send a JSON object.')
  const stranger = Object.keys(body).find((name) => !members.includes(name))
  if (stranger !== undefined)
    throw badRequest(`Only ${members.map((name) => `\`${name}\``).join(' and ')} may be sent.`)
  return body
}

/** A pinned tool as operators see it. */
export type RenderedPin = ReturnType<typeof renderPin>
/** The same with what accepting would change. */
export type RenderedPinDiff = ReturnType<typeof renderPinDiff>

function renderPin(view: PinView) {
  const { waiting } = view
  return {
    source: view.source,
    tool: view.tool,
    native_name: view.nativeName,
    state: view.state,
    version: view.version ?? null,
    hash: view.hash ?? null,
    accepted_by: view.acceptedBy ?? null,
    accepted_at: momentOf(view.acceptedAtMs),
    waiting:
      waiting === undefined
        ? null
        : {
            kind: waiting.kind,
            class: waiting.class,
            reasons: waiting.reasons,
            hash: waiting.hash,
            renamed_from: waiting.renamedFrom ?? null,
            seen_at: momentOf(waiting.seenAtMs),
            rejected_by: waiting.rejectedBy ?? null,
          },
  }
}

export function renderPinDiff(diff: PinDiff) {
  return {
    ...renderPin(diff),
    next_version: diff.nextVersion ?? null,
    differences: diff.differences.map(renderDifference),
  }
}

function renderDifference({ where, class: found, says, before, after }: Difference) {
  return {
    where,
    class: found,
    says,
    ...(before === undefined ? {} : { before }),
    ...(after === undefined ? {} : { after }),
  }
}
