/**
 * Lists, compares, accepts and rejects pinned definitions of imported tools over HTTP. Sources serve every tenant, so the operator of a
 * single tenant cannot decide about them. A decision can name the hash of the reviewed change, and then applies to no other change.
 */
import {
  ACCEPT_PIN,
  ACCEPT_PINS,
  LIST_PINS,
  type Pin,
  REJECT_PIN,
  type PinDiff as RenderedDiff,
  SHOW_PIN,
} from '#admin-api/pins'
import type { ToolError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import { httpFault } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { PinDiff, PinView } from '#sources/kit/pin-view'
import type { PinResult, Pins } from '#sources/kit/pins'
import type { OperatorAccess } from './access.ts'
import { badRequest, serveOperation, timeOf } from './admin-route.ts'

export function createPinRoutes(access: OperatorAccess, pins: Pins): readonly ServerRoute[] {
  const diffOf = async (tool: string): Promise<RenderedDiff> => {
    const diff = await pins.diff(tool)
    if (diff === undefined) throw REFUSALS.not_found(tool)
    return renderPinDiff(diff)
  }
  return [
    serveOperation(access, LIST_PINS, async ({ query: { source, waiting } }) => {
      const all = await pins.list(source)
      return { pins: all.filter((pin) => pin.waiting !== undefined || waiting !== 'true').map(renderPin) }
    }),
    serveOperation(access, SHOW_PIN, async ({ id }) => await diffOf(id)),
    serveOperation(access, ACCEPT_PINS, async ({ principal, body: { source, suspicious, hashes } }) => {
      const seen = hashes === undefined ? undefined : new Map(Object.entries(hashes))
      const decision = defined({ by: principal.id, suspicious, hashes: seen })
      const { accepted, changed } = await pins.acceptAll(source, decision)
      if (changed.length > 0) throw badRequest(changedSince(source, changed))
      return { accepted }
    }),
    ...(['accept', 'reject'] as const).map((verb) =>
      serveOperation(access, verb === 'accept' ? ACCEPT_PIN : REJECT_PIN, async ({ id, principal, body }) => {
        const decided = await pins[verb](id, defined({ by: principal.id, hash: body.hash }))
        if (decided !== 'decided') throw REFUSALS[decided](id)
        return await diffOf(id)
      }),
    ),
  ]
}

const REFUSALS: Readonly<Record<Exclude<PinResult, 'decided'>, (tool: string) => ToolError>> = {
  not_found: (tool) =>
    httpFault(404, `The tool ${tool} is not pinned; collet pins list --all shows the pinned tools.`),
  not_waiting: (tool) =>
    badRequest(
      `No change to ${tool} waits for a decision: the upstream's current definition is already served.`,
    ),
  other_hash: (tool) =>
    badRequest(
      `The change that waits for ${tool} is not the one you reviewed. Review it again: collet pins diff ${tool}`,
    ),
}

function changedSince(source: string, tools: readonly string[]): string {
  const [first = '', ...others] = tools
  const named = others.length === 0 ? first : `${first} and ${others.length} more`
  return `Nothing was accepted: the change that waits for ${named} is not the one you reviewed. Review it again: collet pins list --source ${source}`
}

function renderPin(view: PinView): Pin {
  const { waiting } = view
  return {
    source: view.source,
    tool: view.tool,
    native_name: view.nativeName,
    state: view.state,
    version: view.version ?? null,
    hash: view.hash ?? null,
    accepted_by: view.acceptedBy ?? null,
    accepted_at: timeOf(view.acceptedAtMs),
    waiting:
      waiting === undefined
        ? null
        : {
            kind: waiting.kind,
            class: waiting.class,
            reasons: waiting.reasons,
            hash: waiting.hash,
            renamed_from: waiting.renamedFrom ?? null,
            seen_at: timeOf(waiting.seenAtMs),
            rejected_by: waiting.rejectedBy ?? null,
          },
  }
}

export function renderPinDiff(diff: PinDiff): RenderedDiff {
  return {
    ...renderPin(diff),
    next_version: diff.nextVersion ?? null,
    differences: diff.differences,
  }
}
